"""What cannot be measured, and why."""

from data.problems import Failure


class EmbeddingError(Failure):
    """A measure that cannot be taken: `no_pairs` of a part, `few_sentences`."""
