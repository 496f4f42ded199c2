"""Jobs: work in a subprocess that outlives the page or command that started it, and the folder that has its status."""
