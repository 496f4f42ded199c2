"""Tokens, sentences, matches and answers in texts."""
