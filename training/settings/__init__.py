"""Settings that suit a base and one's data, found by a few short trials on validation questions."""
