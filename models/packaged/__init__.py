"""Pretrained models that a package ships: for machines that reach no hub, and for the first minute on any."""
