"""Sentence embeddings: how well they follow people's judgement, and how they lie in their space."""
