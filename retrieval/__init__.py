"""The retrieval room: analyzers, retrievers, measures, and the comparison of them."""
