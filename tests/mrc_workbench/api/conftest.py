"""The sample, and work that the tests of this folder share."""

from tests.retrieval.conftest import stored_work, sample

__all__ = ["stored_work", "sample"]
