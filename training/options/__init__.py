"""What a training can be told."""
