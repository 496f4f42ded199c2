"""Question sets: read from files, measured, and what a person says of them."""
