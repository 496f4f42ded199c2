"""The application: pages, the search server and the command line. Nothing imports it."""
