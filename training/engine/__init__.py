"""Batches, speed, checkpoints and adaptation of any model in training."""
