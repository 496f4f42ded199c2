"""Formats in: a file to rows."""
