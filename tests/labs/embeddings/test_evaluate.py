"""Everything told of encoders on a set of pairs, against the same by hand, by the command too; and others' figures.

A module's evaluations are looked at by many: each has a model that fails beside the starter.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from scipy.stats import pearsonr, spearmanr

from mrc_workbench.data.pairs import PairKind, PairSet, split_pairs
from mrc_workbench.data.pairs.store import keep
from mrc_workbench.data.split import Part
from mrc_workbench.labs.embeddings import results
from mrc_workbench.labs.embeddings.encoder import EmbeddingError, encode
from mrc_workbench.labs.embeddings.geometry import project
from mrc_workbench.labs.embeddings.results import PUBLISHED, Evaluation, published_for
from mrc_workbench.labs.embeddings.study import evaluate
from mrc_workbench.workbench.cli import main
from tests.labs.embeddings.worlds import labelled_pairs, scored_pairs

pytestmark = pytest.mark.slow
MODELS = ("starter", "no/such/model", "starter")


@pytest.fixture(scope="module")
def told() -> list[tuple[str, float]]:
    """What was told of the way to `scored`."""
    return []


@pytest.fixture(scope="module")
def scored(told: list[tuple[str, float]]) -> Evaluation:
    return evaluate(scored_pairs(), MODELS, on_progress=lambda name, share: told.append((name, share)))


@pytest.fixture(scope="module")
def labelled() -> Evaluation:
    return evaluate(labelled_pairs(), MODELS, Part.TEST)


def same(one: Evaluation, other: Evaluation) -> bool:
    arrays = [(one.rows, other.rows), (one.values, other.values)]
    for mine, its in zip(one.results, other.results, strict=True):
        arrays += [(mine.cosines, its.cosines), (mine.singular_values, its.singular_values)]
        arrays += [(mine.plane.points, its.plane.points), (mine.plane.explained, its.plane.explained)]
        if mine.probe and its.probe:
            arrays += [(mine.probe.correct, its.probe.correct), (mine.probe.confusion, its.probe.confusion)]
    return one.as_dict() == other.as_dict() and all((a == b).all() for a, b in arrays)


def test_the_figures_of_scored_pairs_are_those_of_the_vectors_by_hand(
    scored: Evaluation, told: list[tuple[str, float]]
) -> None:
    pairs, found = scored_pairs(), scored
    tested = pairs.at(np.flatnonzero(pairs.published == 2))
    sentences = list(dict.fromkeys([*tested.texts[0], *tested.texts[1]]))
    vectors = dict(zip(sentences, encode("starter", sentences, pairs.sentences).vectors, strict=True))
    first, second = (np.stack([vectors[text] for text in column]) for column in tested.texts)
    by_hand, figures = (first * second).sum(axis=1), found.results[0].figures
    assert found.part is Part.TEST
    assert found.rows.tolist() == np.flatnonzero(pairs.published == 2).tolist()
    assert found.results[0].cosines == pytest.approx(by_hand, abs=1e-6)
    assert figures["spearman"].value == pytest.approx(spearmanr(found.results[0].cosines, tested.gold).statistic)
    assert figures["pearson"].value == pytest.approx(pearsonr(by_hand, tested.gold).statistic, abs=1e-6)
    alike = tested.gold >= 0.8
    assert found.positives == alike.sum() > 0
    assert figures["alignment"].value == pytest.approx(((first - second) ** 2).sum(axis=1)[alike].mean(), abs=1e-5)
    every = np.stack([*vectors.values()]).astype(np.float64)
    assert found.results[0].plane.points == pytest.approx(project(every.astype(np.float32)).points)
    assert found.sentences == len(every)
    assert figures["uniformity"].value == pytest.approx(math.log(np.exp(-2 * pdist(every) ** 2).mean()), abs=1e-4)
    assert all(one.low < one.value < one.high for one in figures.values())
    assert told[0] == ("starter", 0)
    assert told[-1] == ("", 1)


def test_a_model_that_fails_has_no_figure_and_the_others_have_theirs(scored: Evaluation) -> None:
    measured, failed = scored.results
    assert not failed.figures
    content = scored.as_dict()
    assert content["models"]["no/such/model"]["code"] == "model_not_found"
    assert "spearman" not in content["models"]["no/such/model"]
    assert content["models"]["starter"]["spearman"] == measured.figures["spearman"].value
    assert set(scored.differences) == {"spearman", "pearson", "alignment", "uniformity", "anisotropy"}
    assert not any(scored.differences.values())
    assert [*scored.measured] == ["starter"]


def test_models_are_told_apart_on_the_same_pairs(tmp_path: Path) -> None:
    """A starter of these sentences, and its folder: a model by another name, with the same vectors."""
    from mrc_workbench.models.sources import find_model, starter_bi_encoder_folder

    pairs = scored_pairs()
    encode("starter", pairs.sentences[:2], pairs.sentences)
    folder = str(starter_bi_encoder_folder(find_model("starter"), pairs.sentences))
    found = evaluate(pairs, ["starter", folder], Part.ALL)
    (told,) = found.differences["spearman"]
    assert (told.a, told.b, told.difference, told.p) == ("starter", folder, 0, 1)
    assert len(found.rows) == len(pairs)


def test_labelled_pairs_are_probed_by_what_was_learned_from_the_other_part(labelled: Evaluation) -> None:
    pairs, found = labelled_pairs(), labelled
    one = found.results[0]
    assert one.probe is not None
    assert found.probe_part is Part.TEST
    assert one.figures["nli_accuracy"].value == one.probe.correct.mean() > 0.8  # the label stands in the last words
    assert one.probe.trained_on.tolist() == np.bincount(pairs.values[split_pairs(pairs)[Part.TRAIN]]).tolist()
    assert one.probe.confusion.sum(axis=1).tolist() == [20, 20, 20]
    assert found.positives == 20
    assert not {"spearman", "pearson"} & set(one.figures)
    judged_on = found.as_dict()["models"]["starter"]["probe"]["judged_on"]
    assert judged_on == dict.fromkeys(("entailment", "neutral", "contradiction"), 20)


def test_no_probe_is_judged_on_what_it_learned_from() -> None:
    found = evaluate(labelled_pairs(), ["starter"], Part.TRAIN)
    assert found.probe_part is None
    assert found.results[0].probe is None
    assert evaluate(labelled_pairs(), ["starter"], Part.ALL).probe_part is Part.TEST


def test_sentences_alone_have_a_geometry() -> None:
    pairs = PairSet.of("alone", PairKind.SENTENCES, [scored_pairs().sentences])
    found = evaluate(pairs, ["starter"], Part.ALL)
    assert [*found.results[0].figures] == ["uniformity", "anisotropy"]
    assert not len(found.results[0].cosines)
    assert found.results[0].singular_values[0] == 1
    assert found.cosines == {}


def test_an_empty_part_is_no_measure() -> None:
    pairs = scored_pairs()
    only_tested = pairs.at(np.flatnonzero(pairs.published == 2))
    with pytest.raises(EmbeddingError, match="the train part of 'counted' holds no row"):
        evaluate(only_tested, ["starter"], Part.TRAIN)


@pytest.mark.parametrize("kind", ["scored", "labelled"])
def test_what_is_kept_is_what_was_measured(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    found = request.getfixturevalue(kind)
    results.keep(found, tmp_path / "kept")
    assert same(results.load(tmp_path / "kept"), found)


def test_what_is_not_whole_is_not_opened(scored: Evaluation, tmp_path: Path) -> None:
    results.keep(scored, tmp_path)
    scores = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    for broken in ({**scores, "models": {"starter": {}}}, {**scores, "kind": "new"}, {}):
        (tmp_path / "scores.json").write_text(json.dumps(broken), encoding="utf-8")
        with pytest.raises(ValueError, match=r"holds no|new"):
            results.load(tmp_path)
    (tmp_path / "scores.json").write_text(json.dumps(scores), encoding="utf-8")
    (tmp_path / "arrays.npz").write_bytes(b"PK" + (tmp_path / "arrays.npz").read_bytes()[3:])
    with pytest.raises(ValueError, match="holds no finished evaluation"):
        results.load(tmp_path)


def test_json_has_every_figure_by_model_with_its_interval(
    scored: Evaluation, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    keep(scored_pairs())
    asked = ["evaluate", "--data", "counted", "--model", "starter", "--json", "--out", str(tmp_path / "out")]
    assert main(["embeddings", *asked]) == 0
    told = json.loads(capsys.readouterr().out)
    figures = scored.results[0].figures
    assert [*figures] == ["spearman", "pearson", "alignment", "uniformity", "anisotropy"]
    for name, figure in figures.items():
        assert told["models"]["starter"][name] == figure.value
        assert told["models"]["starter"]["interval"][name] == [figure.low, figure.high]
    assert (told["split"], told["data"], told["pairs"]) == ("test", "counted", 28)
    assert results.load(tmp_path / "out").results[0].figures == figures


def test_a_table_names_a_model_that_failed(capsys: pytest.CaptureFixture[str]) -> None:
    keep(scored_pairs())
    assert main(["embeddings", "evaluate", "--data", "counted", "--model", "starter", "--model", "no/such/model"]) == 1
    out, error = capsys.readouterr()
    assert out.splitlines()[0].startswith("28 scored rows")
    assert out.splitlines()[1].split() == ["spearman", "pearson", "alignment", "uniformity", "anisotropy"]
    assert out.splitlines()[3].split() == ["no/such/model", "failed"]
    assert "no/such/model failed: " in error


def test_what_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["embeddings", "evaluate", "--data", "nowhere", "--model", "starter"]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_every_figure_is_a_share_with_a_source_and_is_not_ours() -> None:
    assert all(0 < one.value < 1 and one.source for one in PUBLISHED)


def test_figures_of_a_set_are_found_by_its_name_and_part() -> None:
    found = {(one.model, one.learned_from): one.value for one in published_for("korsts", "test")}
    assert found["KR-BERT SimCSE", "KorNLI"] == 0.8072
    assert found["SRoBERTa base", "KorNLI, then KorSTS"] == 0.8029
    assert {one.data for one in published_for("KorSTS, all parts", "validation")} == {"KorSTS"}
    assert [one.measure for one in published_for("klue_sts_dev.json", "validation")] == ["pearson", "pearson"]
    assert published_for("KorSTS", "train") == published_for("mine", "test") == ()
