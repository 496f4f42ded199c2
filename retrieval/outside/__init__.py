"""Retrievers that are not part of this project: Python objects, HTTP endpoints, plugins of installed packages."""
