"""Retrievers in production, as a server over HTTP. Imports no module of the pages."""
