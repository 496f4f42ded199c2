"""Ablations: one thing of a language model's training varied at a time, and what each variant is worth."""
