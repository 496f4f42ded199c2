"""Retrievers in production: opened, asked from Python or over HTTP; nothing of the pages is needed."""
