"""A model looked into: gaps filled, words in context, attention, and the layers that make sentence vectors."""
