"""Quality of retrieval and training."""
