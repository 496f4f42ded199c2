"""Windows of a passage beside a question, against the tokenizer's own way to cut a pair."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from models.hub import ModelError
from models.readers.reader import SpanOptions, SpanTokens, batch
from tests.hub import SENTENCES, build_bi_encoder, build_cross_encoder_base

WORDS = " ".join(SENTENCES).split()
TEXT = st.lists(st.sampled_from(WORDS), max_size=60).map(" ".join)


@pytest.fixture(scope="module", params=["bert", "roberta"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    build = build_bi_encoder if request.param == "bert" else build_cross_encoder_base
    return AutoTokenizer.from_pretrained(build(tmp_path_factory.mktemp("model") / "tiny"))


def cut(tokenizer: Any, question: str, passage: str, length: int, overlap: int) -> list[np.ndarray]:
    tokens = SpanTokens(tokenizer, 512, SpanOptions(length, overlap), "tiny")
    return [window.ids for window in tokens.windows(question, passage)]


@settings(max_examples=60, deadline=None)
@given(question=st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join), passage=TEXT.filter(bool))
def test_windows_are_those_of_the_library(tokenizer: Any, question: str, passage: str) -> None:
    told = tokenizer(
        question, passage, truncation="only_second", max_length=32, stride=8, return_overflowing_tokens=True
    )
    assert [ids.tolist() for ids in cut(tokenizer, question, passage, 32, 8)] == told["input_ids"]


@settings(max_examples=60, deadline=None)
@given(question=TEXT, passage=TEXT, length=st.integers(12, 40), overlap=st.integers(0, 6))
def test_every_token_is_read_and_none_is_too_many(
    tokenizer: Any, question: str, passage: str, length: int, overlap: int
) -> None:
    tokens = SpanTokens(tokenizer, 512, SpanOptions(length, overlap), "tiny")
    read = tokens.of(passage).ids
    seen: set[int] = set()
    for window in tokens.windows(question, passage):
        assert window.width <= length
        part = window.ids[window.start : window.start + window.last - window.first]
        assert part.tolist() == read[window.first : window.last].tolist()
        seen |= set(range(window.first, window.last))
    assert seen == set(range(len(read)))


def test_letters_are_those_of_the_text(tokenizer: Any) -> None:
    tokens = SpanTokens(tokenizer, 512, SpanOptions(), "tiny")
    text = f"{WORDS[0]}  {WORDS[1]} {WORDS[2]}"
    letters = tokens.of(text).letters.tolist()
    assert text[letters[0][0] : letters[0][1]].strip() in WORDS[0]
    assert max(end for _, end in letters) == len(text)


def test_a_batch_marks_where_an_answer_may_stand(tokenizer: Any) -> None:
    tokens = SpanTokens(tokenizer, 512, SpanOptions(), "tiny")
    windows = [*tokens.windows(WORDS[0], f"{WORDS[1]} {WORDS[2]}"), *tokens.windows(WORDS[0], WORDS[1])]
    made = batch(windows, 0, segments=True)
    assert made["input_ids"].shape == (2, windows[0].width)
    assert made["attention_mask"].sum(axis=1).tolist() == [windows[0].width, windows[1].width]
    assert [np.flatnonzero(row).tolist() for row in made["allowed"]] == [
        [0, *range(one.start, one.start + one.last - one.first)] for one in windows
    ]
    assert "token_type_ids" not in batch(windows, 0, segments=False)


def test_a_tokenizer_that_tells_no_letters_is_refused() -> None:
    class Slow:
        is_fast = False

    with pytest.raises(ModelError) as caught:
        SpanTokens(Slow(), 512, SpanOptions(), "old")
    assert caught.value.code == "no_letters"


@pytest.mark.parametrize(
    "wrong", [{"length": -1}, {"overlap": -1}, {"longest_answer": 0}, {"length": 10, "overlap": 6}]
)
def test_windows_must_move_on(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"must|least"):
        SpanOptions(**wrong)
