"""How bytes become text."""
