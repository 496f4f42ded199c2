"""The Train page: the form, and the running, queued and ended trainings with their charts, scores and model."""
