"""Stub servers of search engines that refuse what the engines refuse, and search the documents that they are given."""
