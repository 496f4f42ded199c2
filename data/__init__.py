"""Datasets: read from files, audited, split and stored."""
