"""What is copied into a folder and runs there, beside its data: it imports nothing of this program when it is read."""
