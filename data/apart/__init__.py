"""A file is read in a process of its own: whatever is in it ends no other process, nor takes the machine's memory."""
