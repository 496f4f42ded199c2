"""The application: pages, the search server and the command line. No other package imports it."""
