"""The labs of the Compare page."""
