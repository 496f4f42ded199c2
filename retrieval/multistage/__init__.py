"""Retrievers made of retrievers: fusion and reranking."""
