"""The Answers page."""
