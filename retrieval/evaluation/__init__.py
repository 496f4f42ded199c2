"""What rankings are worth, and how sure that is."""
