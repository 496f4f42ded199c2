"""Files and folders that survive a kill, what reading files may take, and how far it has come."""
