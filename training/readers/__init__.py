"""Training models that read: a question and a passage, and where in it the answer stands."""
