"""Distinct sentences and their stored vectors, the models that users add, and costs."""

import math
from pathlib import Path

import numpy as np
import pytest

from mrc_workbench.data.pairs import PairKind, PairSet
from mrc_workbench.data.workspace import workspace, write_text
from mrc_workbench.labs.embeddings import encoder
from mrc_workbench.models.files import ModelError
from mrc_workbench.models.loading import load_bi_encoder
from mrc_workbench.models.sources import find_model
from tests.labs.embeddings.worlds import labelled_pairs, scored_pairs

SENTENCES = scored_pairs().sentences


def test_deduplicates_sentences_and_groups_rows() -> None:
    first = ["가", "나", "라", "마"]
    second = ["나", "다", "라", "바"]
    distinct = encoder.DistinctSentences.from_pairs(PairSet.from_columns("small", PairKind.PARALLEL, [first, second]))
    assert distinct.sentences == ["가", "나", "라", "마", "다", "바"]
    assert distinct.sentence_rows.tolist() == [[0, 1], [1, 4], [2, 2], [3, 5]]
    assert distinct.groups.tolist() == [0, 0, 1, 2]
    assert distinct.sentence_groups.tolist() == [0, 0, 1, 2, 0, 2]
    triplets = PairSet.from_columns("t", PairKind.TRIPLETS, [["가", "나"], ["다", "라"], ["마", "마"]])
    assert encoder.DistinctSentences.from_pairs(triplets).groups.tolist() == [0, 0]
    single_sentences = PairSet.from_columns("s", PairKind.SENTENCES, [["가", "나", "가"]])
    assert encoder.DistinctSentences.from_pairs(single_sentences).groups.tolist() == [0, 1, 0]


@pytest.mark.slow
def test_vectors_match_model_query_encoding() -> None:
    fractions: list[float] = []
    encoded = encoder.encode("starter", SENTENCES[:20], SENTENCES, on_progress=fractions.append)
    model = load_bi_encoder(find_model("starter"), SENTENCES)
    expected = np.asarray(model.encode_query(SENTENCES[:20], normalize_embeddings=True))
    assert encoded.vectors == pytest.approx(expected, abs=1e-6)
    assert fractions[-1] == 1
    assert fractions == sorted(fractions)


def test_reports_missing_model_by_name(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no/such/model"):
        encoder.encode("no/such/model", SENTENCES, SENTENCES, base=tmp_path)


def test_adds_and_removes_models() -> None:
    for reference in ("klue/roberta-base", "snunlp/KR-SBERT-V40K-klueNLI-augSTS", "klue/roberta-base"):
        encoder.add_model(reference)
    assert encoder.added_models() == ["snunlp/KR-SBERT-V40K-klueNLI-augSTS", "klue/roberta-base"]
    encoder.remove_model("klue/roberta-base")
    assert encoder.added_models() == ["snunlp/KR-SBERT-V40K-klueNLI-augSTS"]
    with pytest.raises(ModelError):
        encoder.add_model("no such/model of/this name")
    assert encoder.added_models() == ["snunlp/KR-SBERT-V40K-klueNLI-augSTS"]
    write_text(workspace() / "embeddings" / "models.json", '{"models": "x"}')
    assert encoder.added_models() == []


@pytest.mark.parametrize("content", ["{", '{"models": "x"}', '{"models": ["klue/roberta-base", 3]}'])
def test_sets_damaged_model_list_aside(content: str) -> None:
    path = workspace() / "embeddings" / "models.json"
    write_text(path, content)
    known = encoder.added_models()
    encoder.add_model("snunlp/KR-SBERT-V40K-klueNLI-augSTS")
    assert encoder.added_models() == [*known, "snunlp/KR-SBERT-V40K-klueNLI-augSTS"]
    assert path.with_name("models.json.damaged").read_text(encoding="utf-8") == content


def clock(seconds: float) -> encoder._Clock:
    return encoder._Clock(seconds, lambda _: None)


def test_extrapolates_after_time_limit() -> None:
    timer = clock(60.0)
    measured_sizes = []

    def run(size: int) -> float:
        measured_sizes.append(size)
        timer.spent += size**2 / 10_000
        return size**2 / 10_000

    timings = encoder._time_by_size(run, lambda size: size**2, 10_000, timer)
    assert measured_sizes == [30, 100, 200, 500]  # 0.09 + 1 + 4 + 25 seconds; 100 more would be too many
    assert [timing.is_measured for timing in timings] == [True] * 4 + [False] * 4
    assert [timing.seconds for timing in timings] == pytest.approx([size**2 / 10_000 for size in encoder.SIZES])


def test_measures_first_size_and_available_sentences() -> None:
    few = encoder._time_by_size(float, float, 250, clock(1e9))
    assert [timing.is_measured for timing in few] == [True] * 3 + [False] * 5
    assert [timing.seconds for timing in few] == [*encoder.SIZES]
    slow = encoder._time_by_size(float, float, 10_000, clock(0.0001))
    assert [timing.is_measured for timing in slow] == [True] + [False] * 7


def test_rejects_few_sentences() -> None:
    with pytest.raises(encoder.EmbeddingError, match="3 sentences are too few to measure with, 30 are needed"):
        encoder.measure_cost("starter", "starter", ["가", "나", "다"])


@pytest.mark.slow
def test_measures_cost_of_both_encoders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_workbench.labs.embeddings.encoder.SIZES", sizes := (30, 60, 100, 10_000))
    sentences = labelled_pairs(60).sentences[:99]
    fractions = []
    cost = encoder.measure_cost("starter", "starter", sentences, seconds=600, on_progress=fractions.append)
    expected = [(method, size) for method in encoder.Method for size in sizes]
    assert [(point.method, point.sentences) for point in cost.points] == expected
    by_method = {method: [point for point in cost.points if point.method is method] for method in encoder.Method}
    for line in by_method.values():
        assert [point.is_measured for point in line] == [True, True, False, False]
        assert all(point.seconds > 0 for point in line)
    pairs = by_method[encoder.Method.CROSS_ENCODER]
    assert pairs[-1].seconds == pytest.approx(pairs[1].seconds * math.comb(10_000, 2) / math.comb(60, 2))
    assert 0.9 <= cost.agreement <= 1
    assert fractions[-1] == 1
    assert fractions == sorted(fractions)
    assert encoder.COST_ADAPTER.validate_json(encoder.COST_ADAPTER.dump_json(cost)) == cost
