"""Measured comparisons: speed as ratios within one run, quality on real data. `make bench` runs them all."""
