"""Fixtures of the retrieval tests."""

from tests.retrieval.conftest import kept_work, sample

__all__ = ["kept_work", "sample"]
