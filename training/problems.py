"""What can be wrong with a training, for reasons a person can do something about."""

from data.failure import Failure


class TrainingError(Failure):
    """A training that cannot go on."""
