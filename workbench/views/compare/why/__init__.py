"""Why each question came out as it did."""
