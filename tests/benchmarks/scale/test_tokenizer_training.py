"""The text that tokenizers are timed on grows by new words as the real one does."""

import pytest

from benchmarks.scale.tokenizer_training import documents, heaps


def test_heaps_law_goes_through_the_half_and_the_whole() -> None:
    exponent, scale = heaps(["a", "b", "a", "c", "b", "d", "a", "e"])  # 3 distinct of 4, 5 of 8
    assert scale * 4**exponent == pytest.approx(3)
    assert scale * 8**exponent == pytest.approx(5)


def test_documents_hold_the_bytes_asked_for_and_new_words_besides() -> None:
    real = [f"{number:03}말{number:03}" for number in (*range(500), *range(100, 600))]
    found = [*documents(real, 300_000)]
    assert sum(len(text.encode()) + 1 for text in found) >= 300_000
    assert sum(len(text.encode()) + 1 for text in found[:-1]) < 300_000
    assert {len(text.split()) for text in found} == {100}
    new = {word for text in found for word in text.split()} - {*real}
    assert len(new) > len({*real}) / 5
