"""Labs: one subject each, measured with the retrievers and models below them."""
