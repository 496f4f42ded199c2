"""Fixtures of the retrieval tests."""

from tests.retrieval.conftest import stored_work, sample

__all__ = ["stored_work", "sample"]
