"""What trains any model: batches, tokens, checkpoints, progress."""
