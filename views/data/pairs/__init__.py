"""The Data page's part for sentence pairs."""
