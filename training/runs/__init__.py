"""Run folders and what stands in them."""
