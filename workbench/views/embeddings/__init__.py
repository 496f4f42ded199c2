"""The Embeddings page: encoders of sentences, measured and seen."""
