"""Processes that survive the page that asked for them."""
