"""Retrieval by words: BM25, its postings and its terms."""
