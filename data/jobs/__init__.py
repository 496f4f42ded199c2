"""Jobs run in processes that outlive the page or command that starts them; their folders hold the status."""
