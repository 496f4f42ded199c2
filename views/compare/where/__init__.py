"""Where retrievers differ."""
