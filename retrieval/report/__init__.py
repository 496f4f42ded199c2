"""The report: one HTML file that says what a comparison found, to be sent to somebody."""
