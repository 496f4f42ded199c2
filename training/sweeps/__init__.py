"""Sweeps: searches for settings and ablations, whose trainings differ in one thing at a time."""
