"""Runs and judgements in the layout of TREC."""
