"""Taking a retriever away: a folder with which an engine searches the same, and the figure of what it does otherwise."""
