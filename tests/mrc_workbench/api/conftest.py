"""The sample, and work that the tests of this folder share."""

from tests.retrieval.conftest import kept_work, sample

__all__ = ["kept_work", "sample"]
