"""Evaluations of encoders on pairs, compared with values by hand; each shared evaluation has a failed model."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from scipy.stats import pearsonr, spearmanr

from mrc_workbench.data.pairs import PairKind, PairSet, split_pairs
from mrc_workbench.data.pairs.store import save_pairs
from mrc_workbench.data.split import Part
from mrc_workbench.labs.embeddings import results
from mrc_workbench.labs.embeddings.encoder import EmbeddingError, encode
from mrc_workbench.labs.embeddings.geometry import project
from mrc_workbench.labs.embeddings.results import PUBLISHED, EncoderEvaluation, published_for
from mrc_workbench.labs.embeddings.study import evaluate
from mrc_workbench.workbench.cli import main
from tests.labs.embeddings.worlds import labelled_pairs, scored_pairs

pytestmark = pytest.mark.slow
MODELS = ("starter", "no/such/model", "starter")


@pytest.fixture(scope="module")
def progress() -> list[tuple[str, float]]:
    return []


@pytest.fixture(scope="module")
def scored(progress: list[tuple[str, float]]) -> EncoderEvaluation:
    return evaluate(scored_pairs(), MODELS, on_progress=lambda name, fraction: progress.append((name, fraction)))


@pytest.fixture(scope="module")
def labelled() -> EncoderEvaluation:
    return evaluate(labelled_pairs(), MODELS, Part.TEST)


def test_metrics_of_scored_pairs_match_by_hand(scored: EncoderEvaluation, progress: list[tuple[str, float]]) -> None:
    pairs = scored_pairs()
    tested = pairs.at(np.flatnonzero(pairs.published == 2))
    sentences = list(dict.fromkeys([*tested.texts[0], *tested.texts[1]]))
    vectors = dict(zip(sentences, encode("starter", sentences, pairs.sentences).vectors, strict=True))
    first, second = (np.stack([vectors[text] for text in column]) for column in tested.texts)
    by_hand = (first * second).sum(axis=1)
    metrics = scored.results[0].metrics
    assert scored.part is Part.TEST
    assert scored.rows.tolist() == np.flatnonzero(pairs.published == 2).tolist()
    assert scored.results[0].cosines == pytest.approx(by_hand, abs=1e-6)
    assert metrics["spearman"].value == pytest.approx(spearmanr(scored.results[0].cosines, tested.gold).statistic)
    assert metrics["pearson"].value == pytest.approx(pearsonr(by_hand, tested.gold).statistic, abs=1e-6)
    is_positive = tested.gold >= 0.8
    assert scored.positives == is_positive.sum() > 0
    distances = ((first - second) ** 2).sum(axis=1)
    assert metrics["alignment"].value == pytest.approx(distances[is_positive].mean(), abs=1e-5)
    all_vectors = np.stack([*vectors.values()]).astype(np.float64)
    assert scored.results[0].plane.points == pytest.approx(project(all_vectors.astype(np.float32)).points)
    assert scored.sentences == len(all_vectors)
    assert metrics["uniformity"].value == pytest.approx(math.log(np.exp(-2 * pdist(all_vectors) ** 2).mean()), abs=1e-4)
    assert all(metric.low < metric.value < metric.high for metric in metrics.values())
    assert (progress[0], progress[-1]) == (("starter", 0), ("", 1))


def test_failed_model_has_no_metrics(scored: EncoderEvaluation) -> None:
    measured, failed = scored.results
    assert not failed.metrics
    content = scored.as_dict()
    assert content["models"]["no/such/model"]["code"] == "model_not_found"
    assert "spearman" not in content["models"]["no/such/model"]
    assert content["models"]["starter"]["spearman"] == measured.metrics["spearman"].value
    assert set(scored.differences) == {"spearman", "pearson", "alignment", "uniformity", "anisotropy"}
    assert not any(scored.differences.values())
    assert [*scored.results_by_model] == ["starter"]


def test_compares_models_on_same_pairs(tmp_path: Path) -> None:
    """Compares a starter with its folder: two names of a model with the same vectors."""
    from mrc_workbench.models.sources import find_model, starter_bi_encoder_folder

    pairs = scored_pairs()
    encode("starter", pairs.sentences[:2], pairs.sentences)
    folder = str(starter_bi_encoder_folder(find_model("starter"), pairs.sentences))
    evaluation = evaluate(pairs, ["starter", folder], Part.ALL)
    (test,) = evaluation.differences["spearman"]
    assert (test.a, test.b, test.difference, test.p) == ("starter", folder, 0, 1)
    assert len(evaluation.rows) == len(pairs)


def test_probes_labelled_pairs(labelled: EncoderEvaluation) -> None:
    pairs = labelled_pairs()
    result = labelled.results[0]
    assert result.probe is not None
    assert labelled.probe_part is Part.TEST
    assert result.metrics["nli_accuracy"].value == result.probe.correct.mean() > 0.8  # the last words give the label
    assert result.probe.trained_on.tolist() == np.bincount(pairs.values[split_pairs(pairs)[Part.TRAIN]]).tolist()
    assert result.probe.confusion.sum(axis=1).tolist() == [20, 20, 20]
    assert labelled.positives == 20
    assert not {"spearman", "pearson"} & set(result.metrics)
    evaluated_on = labelled.as_dict()["models"]["starter"]["probe"]["evaluated_on"]
    assert evaluated_on == dict.fromkeys(("entailment", "neutral", "contradiction"), 20)


def test_no_probe_on_training_part() -> None:
    evaluation = evaluate(labelled_pairs(), ["starter"], Part.TRAIN)
    assert evaluation.probe_part is None
    assert evaluation.results[0].probe is None
    assert evaluate(labelled_pairs(), ["starter"], Part.ALL).probe_part is Part.TEST


def test_plain_sentences_have_geometry_only() -> None:
    pairs = PairSet.from_columns("alone", PairKind.SENTENCES, [scored_pairs().sentences])
    evaluation = evaluate(pairs, ["starter"], Part.ALL)
    assert [*evaluation.results[0].metrics] == ["uniformity", "anisotropy"]
    assert not len(evaluation.results[0].cosines)
    assert evaluation.results[0].singular_values[0] == 1
    assert evaluation.cosines == {}


def test_rejects_empty_part() -> None:
    pairs = scored_pairs()
    only_tested = pairs.at(np.flatnonzero(pairs.published == 2))
    with pytest.raises(EmbeddingError, match="the train part of 'counted' holds no row"):
        evaluate(only_tested, ["starter"], Part.TRAIN)


@pytest.mark.parametrize("kind", ["scored", "labelled"])
def test_evaluation_round_trip(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    evaluation = request.getfixturevalue(kind)
    results.save(evaluation, tmp_path)
    loaded = results.load(tmp_path)
    assert loaded.as_dict() == evaluation.as_dict()
    arrays = [(loaded.rows, evaluation.rows), (loaded.values, evaluation.values)]
    for first, second in zip(loaded.results, evaluation.results, strict=True):
        arrays += [(first.cosines, second.cosines), (first.singular_values, second.singular_values)]
        arrays += [(first.plane.points, second.plane.points), (first.plane.explained, second.plane.explained)]
        if first.probe and second.probe:
            arrays += [(first.probe.correct, second.probe.correct), (first.probe.confusion, second.probe.confusion)]
    assert all(np.array_equal(actual, expected) for actual, expected in arrays)


def test_rejects_incomplete_folder(scored: EncoderEvaluation, tmp_path: Path) -> None:
    results.save(scored, tmp_path)
    scores = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    for broken in ({**scores, "models": {"starter": {}}}, {**scores, "kind": "new"}, {}):
        (tmp_path / "scores.json").write_text(json.dumps(broken), encoding="utf-8")
        with pytest.raises(ValueError, match=r"holds no|new"):
            results.load(tmp_path)
    (tmp_path / "scores.json").write_text(json.dumps(scores), encoding="utf-8")
    (tmp_path / "arrays.npz").write_bytes(b"PK" + (tmp_path / "arrays.npz").read_bytes()[3:])
    with pytest.raises(ValueError, match="holds no finished evaluation"):
        results.load(tmp_path)


def test_json_has_intervals(scored: EncoderEvaluation, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    save_pairs(scored_pairs())
    arguments = ["evaluate", "--data", "counted", "--model", "starter", "--json", "--out", str(tmp_path / "out")]
    assert main(["embeddings", *arguments]) == 0
    content = json.loads(capsys.readouterr().out)
    metrics = scored.results[0].metrics
    assert [*metrics] == ["spearman", "pearson", "alignment", "uniformity", "anisotropy"]
    for name, metric in metrics.items():
        assert content["models"]["starter"][name] == metric.value
        assert content["models"]["starter"]["interval"][name] == [metric.low, metric.high]
    assert (content["split"], content["data"], content["pairs"]) == ("test", "counted", 28)
    assert results.load(tmp_path / "out").results[0].metrics == metrics


def test_table_shows_failed_model_and_command_reports_missing_data(capsys: pytest.CaptureFixture[str]) -> None:
    save_pairs(scored_pairs())
    assert main(["embeddings", "evaluate", "--data", "counted", "--model", "starter", "--model", "no/such/model"]) == 1
    out, error = capsys.readouterr()
    assert out.splitlines()[0].startswith("28 scored rows")
    assert out.splitlines()[1].split() == ["spearman", "pearson", "alignment", "uniformity", "anisotropy"]
    assert out.splitlines()[3].split() == ["no/such/model", "failed"]
    assert "no/such/model failed: " in error
    assert main(["embeddings", "evaluate", "--data", "nowhere", "--model", "starter"]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_finds_published_values_with_source_by_set_and_part() -> None:
    values = {(entry.model, entry.training_data): entry.value for entry in published_for("korsts", "test")}
    assert values["KR-BERT SimCSE", "KorNLI"] == 0.8072
    assert values["SRoBERTa base", "KorNLI, then KorSTS"] == 0.8029
    assert {entry.data for entry in published_for("KorSTS, all parts", "validation")} == {"KorSTS"}
    assert [entry.measure for entry in published_for("klue_sts_dev.json", "validation")] == ["pearson", "pearson"]
    assert published_for("KorSTS", "train") == published_for("mine", "test") == ()
    assert all(0 < entry.value < 1 and entry.source for entry in PUBLISHED)
