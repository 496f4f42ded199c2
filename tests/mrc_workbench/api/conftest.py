"""Fixtures of the retrieval tests."""

from tests.retrieval.conftest import sample, stored_work

__all__ = ["sample", "stored_work"]
