"""The data room: files become question sets, and question sets are audited, split and kept."""
