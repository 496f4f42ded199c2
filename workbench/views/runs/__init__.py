"""Trainings on the pages: their list, line, charts, figures and model."""
