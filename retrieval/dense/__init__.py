"""Retrieval by vectors."""
