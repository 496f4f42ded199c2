"""Files as one program or test collection writes them: its own lines, exports and objects."""
