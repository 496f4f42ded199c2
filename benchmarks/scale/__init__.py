"""How cost grows with the corpus."""
