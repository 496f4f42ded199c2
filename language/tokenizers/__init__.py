"""Tokenizers: trained on a text, how they cut what was held out, side by side, and a word built merge by merge."""
