"""Trainings on sentence pairs: SBERT, SimCSE and what came after them."""
