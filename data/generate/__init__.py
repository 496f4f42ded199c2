"""Questions made of passages, for those who have passages and nobody who asked."""
