"""Models: found, loaded safely, and what they compute."""
