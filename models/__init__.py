"""Models: finding, safe loading, and inference."""
