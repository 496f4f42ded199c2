"""Training masked language models: from scratch on one's own text, or on from a base."""
