"""What a question set is like: overlap, leaks, figures, passages."""
