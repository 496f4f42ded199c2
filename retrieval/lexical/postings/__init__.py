"""An inverted index: which passages hold each term and what it adds to their scores, searched exactly."""
