"""Studies: what all work with a spec and a stored result shares."""
