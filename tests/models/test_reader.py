"""Windows against the tokenizer's own way to cut a pair, a reader's spans against every span summed by hand."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

from mrc_workbench.models.files import ModelError
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.reader import (
    SpanOptions,
    SpanReader,
    SpanTokens,
    batch,
    keep_options,
    options_of,
    threshold_of,
)
from mrc_workbench.models.sources import STARTER, find_model
from tests.hub import SENTENCES, build_bi_encoder, build_cross_encoder_base, with_head
from tests.models.worlds import telling

pytestmark = pytest.mark.slow
WORDS = " ".join(SENTENCES).split()
TEXT = st.lists(st.sampled_from(WORDS), max_size=60).map(" ".join)
rng = np.random.default_rng(0)
PAIRS = [
    (" ".join(rng.choice(WORDS, 3)), " ".join(rng.choice(WORDS, count))) for count in [1, 2, 5, 20, 40, 40, 90, 200]
]


@pytest.fixture(scope="module", params=["bert", "roberta"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("model") / str(request.param)
    if request.param == "bert":
        return with_head(telling(build_bi_encoder(place)), "QuestionAnswering")
    return with_head(telling(build_cross_encoder_base(place, segment_types=1)), "QuestionAnswering")


@pytest.fixture(scope="module")
def reader(folder: Path) -> SpanReader:
    return SpanReader(find_model(str(folder)), options=SpanOptions(48, 12, 6), precision=Precision.FLOAT32)


def by_hand(reader: SpanReader, question: str, passage: str) -> tuple[float, int, int, float]:
    """The best span of all windows, each of which plain transformers reads alone, and the score of none."""
    network, tokenizer = reader.model[0].model, reader.model.tokenizer
    told = tokenizer(
        question,
        passage,
        truncation="only_second",
        max_length=48,
        stride=12,
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    found, nothing = [], []
    for number, ids in enumerate(told["input_ids"]):
        owners = told.sequence_ids(number)
        given = {"input_ids": torch.tensor([ids])}
        if "token_type_ids" in told:
            given["token_type_ids"] = torch.tensor([told["token_type_ids"][number]])
        with torch.no_grad():
            logits = network(**given)
        allowed = torch.tensor([place == 0 or owner == 1 for place, owner in enumerate(owners)])
        shares = [
            torch.log_softmax(one[0].masked_fill(~allowed, -torch.inf), 0).tolist()
            for one in (logits.start_logits, logits.end_logits)
        ]
        nothing.append(shares[0][0] + shares[1][0])
        inside = [place for place, owner in enumerate(owners) if owner == 1]
        for first in inside:
            for last in (place for place in inside if first <= place < first + 6):
                start, end = told["offset_mapping"][number][first][0], told["offset_mapping"][number][last][1]
                found.append((shares[0][first] + shares[1][last], start, end))
    score, start, end = max(found)
    return score, start, end, min(nothing)


def test_the_best_span_is_that_of_all_spans(reader: SpanReader) -> None:
    read = reader.read(PAIRS)
    for row, (question, passage) in enumerate(PAIRS):
        score, start, end, nothing = by_hand(reader, question, passage)
        assert read.scores[row, 0] == pytest.approx(score, abs=1e-4)
        assert read.nothing[row] == pytest.approx(nothing, abs=1e-4)
        said = passage[read.starts[row, 0] : read.ends[row, 0]]
        assert said == passage[start:end].strip()


def test_several_spans_lie_apart_and_get_worse(reader: SpanReader) -> None:
    read = reader.read(PAIRS, spans=3)
    assert (read.scores[:, :-1] >= read.scores[:, 1:]).all()
    assert read.scores[:, 0] == pytest.approx(reader.read(PAIRS).scores[:, 0], abs=1e-5)
    for starts, ends, scores in zip(read.starts, read.ends, read.scores, strict=True):
        spans = sorted((int(a), int(b)) for a, b, score in zip(starts, ends, scores, strict=True) if np.isfinite(score))
        assert all(first[1] <= second[0] for first, second in pairwise(spans))
    assert np.isneginf(read.scores[0, 1:]).all(), "a passage of one word has one span"


def test_an_empty_passage_answers_nothing(reader: SpanReader) -> None:
    read = reader.read([(WORDS[0], ""), (WORDS[0], WORDS[1])])
    assert (read.starts[0, 0], read.ends[0, 0]) == (0, 0)
    assert np.isneginf(read.scores[0, 0])
    assert np.isfinite(read.scores[1, 0])
    assert len(reader.read([])) == 0


def test_the_company_of_a_pair_does_not_change_it(reader: SpanReader) -> None:
    together, alone = reader.read(PAIRS), [reader.read([pair]) for pair in PAIRS]
    assert together.scores[:, 0] == pytest.approx([one.scores[0, 0] for one in alone], abs=1e-4)


def test_a_base_is_given_the_same_head_every_time_and_plain_transformers_reads_what_is_saved(tmp_path: Path) -> None:
    base = find_model(str(build_cross_encoder_base(tmp_path / "base", segment_types=1)))
    first, second = (SpanReader(base, new_head=True) for _ in range(2))
    assert first.read(PAIRS).scores.tolist() == second.read(PAIRS).scores.tolist()
    first.model.save_pretrained(str(tmp_path / "saved"))
    assert not list((tmp_path / "saved").glob("*.bin"))
    network = AutoModelForQuestionAnswering.from_pretrained(tmp_path / "saved")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "saved")
    given = tokenizer(*PAIRS[3], return_tensors="pt")
    with torch.no_grad():
        assert torch.equal(network(**given).start_logits, first.model[0](dict(given))["starts"])


def test_how_it_reads_is_kept_beside_it(folder: Path, tmp_path: Path) -> None:
    model = SpanReader(find_model(str(folder))).model
    model.save_pretrained(str(tmp_path))
    source = find_model(str(tmp_path))
    assert options_of(source) == SpanOptions()
    keep_options(tmp_path, SpanOptions(64, 16, 5))
    assert (options_of(source), threshold_of(source)) == (SpanOptions(64, 16, 5), None)
    keep_options(tmp_path, SpanOptions(64, 16, 5), -1.25)
    assert (options_of(source), SpanReader(source).threshold) == (SpanOptions(64, 16, 5), -1.25)
    assert SpanReader(source).fingerprint != SpanReader(source, options=SpanOptions()).fingerprint
    (tmp_path / "reader.json").write_text('{"length": "x"}', encoding="utf-8")
    assert options_of(source) == SpanOptions()


def test_a_starter_reads_nothing() -> None:
    with pytest.raises(ModelError) as caught:
        SpanReader(find_model(STARTER)).read(PAIRS)
    assert caught.value.code == "starter_reader"


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
