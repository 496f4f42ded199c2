"""Benchmarks of speed, as ratios of alternating runs, and of quality, on real data. `make bench` runs all."""
