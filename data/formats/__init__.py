"""Readers of file formats, which return rows."""
