"""Speed compared with common alternatives."""
