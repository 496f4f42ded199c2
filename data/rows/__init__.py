"""Rows to a question set."""
