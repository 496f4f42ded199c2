"""Milvus as a retriever: from a file of this workspace to a cluster, with the numbers of the local retrievers.

Passages lie in one collection, their rows in the corpus as ids. A vector of theirs is the encoder's, or holds their
BM25 weights by term: its inner product with a question's term counts is their BM25 score.
"""
