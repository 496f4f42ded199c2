"""Readers: transformers that point at an answer in a passage, or guess hidden tokens, and how they are trained."""
