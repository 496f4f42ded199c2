"""Retrieval by terms: BM25, its postings and its terms, and terms weighed by a model."""
