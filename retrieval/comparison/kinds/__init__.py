"""The kinds of retriever: the values of each, how it is made, what is to be known of it."""
