"""Bi-encoders and cross-encoders: material, negatives, losses."""
