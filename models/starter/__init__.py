"""Starter models: made of the user's own corpus, so that the first minute needs no download.

The files here import torch and sentence-transformers; import them inside functions only.
"""
