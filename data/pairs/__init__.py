"""Sentence pairs: sets of them read, looked at, split and kept."""
