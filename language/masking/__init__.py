"""Tokens hidden and guessed: what is hidden, the rows that a model reads, its sizes, and how well it guesses."""
