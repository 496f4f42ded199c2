"""Comparisons of retrievers: experiments and specs, search and evaluation, stored results."""
