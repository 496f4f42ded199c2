"""The report of a comparison as one HTML file, and its results as files for other tools."""
