"""Sentences once each, their vectors, kept and resumed, and the models that a person adds to those measured."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mrc_workbench.data.pairs import PairKind, PairSet
from mrc_workbench.data.workspace import workspace, write_text
from mrc_workbench.labs.embeddings import encoder
from mrc_workbench.models import vectors as vector_blocks
from mrc_workbench.models.encoders import BiEncoder
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.loading import load_bi_encoder
from mrc_workbench.models.sources import find_model
from tests.labs.embeddings.worlds import labelled_pairs, scored_pairs

SENTENCES = scored_pairs().sentences


def test_sentences_stand_once_and_rows_that_share_one_are_a_group() -> None:
    first, second = ["가", "나", "라", "마"], ["나", "다", "라", "바"]
    found = encoder.Distinct.of(PairSet.of("small", PairKind.PARALLEL, [first, second]))
    assert found.sentences == ["가", "나", "라", "마", "다", "바"]
    assert found.places.tolist() == [[0, 1], [1, 4], [2, 2], [3, 5]]
    assert found.groups.tolist() == [0, 0, 1, 2]
    assert found.sentence_groups.tolist() == [0, 0, 1, 2, 0, 2]
    triplets = encoder.Distinct.of(PairSet.of("t", PairKind.TRIPLETS, [["가", "나"], ["다", "라"], ["마", "마"]]))
    assert triplets.groups.tolist() == [0, 0]
    alone = encoder.Distinct.of(PairSet.of("s", PairKind.SENTENCES, [["가", "나", "가"]]))
    assert alone.groups.tolist() == [0, 1, 0]


@pytest.mark.slow
def test_vectors_are_those_of_the_model_asked_as_questions() -> None:
    shares: list[float] = []
    found = encoder.encode("starter", SENTENCES[:20], SENTENCES, on_progress=shares.append)
    model = load_bi_encoder(find_model("starter"), SENTENCES)
    wanted = np.asarray(model.encode_query(SENTENCES[:20], normalize_embeddings=True))
    assert found.vectors == pytest.approx(wanted, abs=1e-6)
    assert shares[-1] == 1
    assert shares == sorted(shares)


@pytest.mark.slow
def test_what_was_interrupted_goes_on_after_the_last_whole_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_blocks, "BLOCK", 5)
    asked: list[int] = []
    plain = BiEncoder.encode

    def ended_early(self: BiEncoder, side: str, texts: list[str], *told: Any) -> np.ndarray:
        asked.append(len(texts))
        if len(asked) == 3:
            raise KeyboardInterrupt
        return plain(self, side, texts, *told)

    monkeypatch.setattr(BiEncoder, "encode", ended_early)
    with pytest.raises(KeyboardInterrupt):
        encoder.encode("starter", SENTENCES[:20], SENTENCES)
    found = encoder.encode("starter", SENTENCES[:20], SENTENCES)
    assert asked == [5, 5, 5, 5, 5]  # two whole, one ended, and the two that were missing
    monkeypatch.undo()
    whole = BiEncoder(find_model("starter"), SENTENCES).encode("question", SENTENCES[:20])
    assert found.vectors == pytest.approx(whole)


def test_a_model_that_is_not_there_is_told_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no/such/model"):
        encoder.encode("no/such/model", SENTENCES, SENTENCES, base=tmp_path)


def test_a_model_is_added_once_removed_and_checked_by_its_name() -> None:
    for reference in ("klue/roberta-base", "snunlp/KR-SBERT-V40K-klueNLI-augSTS", "klue/roberta-base"):
        encoder.add(reference)
    assert encoder.added() == ["snunlp/KR-SBERT-V40K-klueNLI-augSTS", "klue/roberta-base"]
    encoder.remove("klue/roberta-base")
    assert encoder.added() == ["snunlp/KR-SBERT-V40K-klueNLI-augSTS"]
    with pytest.raises(ModelError):
        encoder.add("no such/model of/this name")
    assert encoder.added() == ["snunlp/KR-SBERT-V40K-klueNLI-augSTS"]
    write_text(workspace() / "embeddings" / "models.json", '{"models": "x"}')
    assert encoder.added() == []


@pytest.mark.parametrize("content", ["{", '{"models": "x"}', '{"models": ["klue/roberta-base", 3]}'])
def test_a_damaged_list_is_set_aside_before_it_is_written(content: str) -> None:
    path = workspace() / "embeddings" / "models.json"
    write_text(path, content)
    known = encoder.added()
    encoder.add("snunlp/KR-SBERT-V40K-klueNLI-augSTS")
    assert encoder.added() == [*known, "snunlp/KR-SBERT-V40K-klueNLI-augSTS"]
    assert path.with_name("models.json.damaged").read_text(encoding="utf-8") == content


def clock(seconds: float) -> encoder._Clock:
    return encoder._Clock(seconds, lambda _: None)


def test_a_line_is_measured_while_there_is_time_and_goes_on_as_it_grows() -> None:
    at, told = clock(60.0), []

    def run(size: int) -> float:
        told.append(size)
        at.spent += size**2 / 10_000
        return size**2 / 10_000

    line = encoder._line(run, lambda size: size**2, 10_000, at)
    assert told == [30, 100, 200, 500]  # 0.09 + 1 + 4 + 25 seconds; 100 more would be too many
    assert [one.measured for one in line] == [True] * 4 + [False] * 4
    assert [one.seconds for one in line] == pytest.approx([size**2 / 10_000 for size in encoder.SIZES])


def test_no_more_sentences_are_measured_than_there_are_and_the_first_size_always_is() -> None:
    few = encoder._line(float, float, 250, clock(1e9))
    assert [one.measured for one in few] == [True] * 3 + [False] * 5
    assert [one.seconds for one in few] == [*encoder.SIZES]
    slow = encoder._line(float, float, 10_000, clock(0.0001))
    assert [one.measured for one in slow] == [True] + [False] * 7


def test_too_few_sentences_are_told() -> None:
    with pytest.raises(encoder.EmbeddingError, match="3 sentences are too few to measure with, 30 are needed"):
        encoder.cost("starter", "starter", ["가", "나", "다"])


@pytest.mark.slow
def test_both_kinds_of_encoder_are_measured_on_the_spot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.labs.embeddings.encoder.SIZES", sizes := (30, 60, 100, 10_000))
    sentences, shares = labelled_pairs(60).sentences[:99], []
    found = encoder.cost("starter", "starter", sentences, seconds=600, on_progress=shares.append)
    assert [(one.method, one.sentences) for one in found.points] == [
        (how, size) for how in encoder.Method for size in sizes
    ]
    by_method = {how: [one for one in found.points if one.method is how] for how in encoder.Method}
    for line in by_method.values():
        assert [one.measured for one in line] == [True, True, False, False]
        assert all(one.seconds > 0 for one in line)
    pairs = by_method[encoder.Method.CROSS_ENCODER]
    assert pairs[-1].seconds == pytest.approx(pairs[1].seconds * math.comb(10_000, 2) / math.comb(60, 2))
    assert 0.9 <= found.agreement <= 1
    assert shares[-1] == 1
    assert shares == sorted(shares)
    assert encoder.COST.validate_json(encoder.COST.dump_json(found)) == found
