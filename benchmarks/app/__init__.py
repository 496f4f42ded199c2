"""Seconds a person waits in the app."""
