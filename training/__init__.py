"""The training room: options in, a run folder with a measured model out."""
