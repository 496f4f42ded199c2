"""Encoders: texts into vectors or weights of terms, and pairs of texts into scores."""
