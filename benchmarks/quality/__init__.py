"""What retrieval and training reach."""
