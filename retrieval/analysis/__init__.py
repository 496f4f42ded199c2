"""What a comparison says: evidence, stages, questions, changes, figures."""
