"""Everything told of encoders on a set of pairs, against the same taken by hand from their vectors."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from scipy.stats import pearsonr, spearmanr

from data.pairs.audit import split_pairs
from data.pairs.records import PairKind, PairSet
from data.split import Part
from embeddings import results
from embeddings.encoder import EmbeddingError, encode
from embeddings.evaluate import evaluate
from embeddings.geometry import project
from embeddings.results import Evaluation
from tests.embeddings.worlds import labelled_pairs, scored_pairs

pytestmark = pytest.mark.slow


def same(one: Evaluation, other: Evaluation) -> bool:
    arrays = [(one.rows, other.rows), (one.values, other.values)]
    for mine, its in zip(one.results, other.results, strict=True):
        arrays += [(mine.cosines, its.cosines), (mine.singular_values, its.singular_values)]
        arrays += [(mine.plane.points, its.plane.points), (mine.plane.explained, its.plane.explained)]
        if mine.probe and its.probe:
            arrays += [(mine.probe.correct, its.probe.correct), (mine.probe.confusion, its.probe.confusion)]
    return one.as_dict() == other.as_dict() and all((a == b).all() for a, b in arrays)


def test_the_figures_of_scored_pairs_are_those_of_the_vectors_by_hand() -> None:
    pairs, told = scored_pairs(), []
    found = evaluate(pairs, ["starter"], on_progress=lambda name, share: told.append((name, share)))
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


def test_a_model_that_fails_has_no_figure_and_the_others_have_theirs(tmp_path: Path) -> None:
    found = evaluate(scored_pairs(), ["no/such/model", "starter", "starter"], base=tmp_path)
    failed, measured = found.results
    assert not failed.figures
    content = found.as_dict()
    assert content["models"]["no/such/model"]["code"] == "model_not_found"
    assert "spearman" not in content["models"]["no/such/model"]
    assert content["models"]["starter"]["spearman"] == measured.figures["spearman"].value
    assert set(found.differences) == {"spearman", "pearson", "alignment", "uniformity", "anisotropy"}
    assert not any(found.differences.values())
    assert [*found.measured] == ["starter"]


def test_models_are_told_apart_on_the_same_pairs(tmp_path: Path) -> None:
    """A starter of these sentences, and its folder: a model by another name, with the same vectors."""
    from models.sources import find_model, starter_bi_encoder_folder

    pairs = scored_pairs()
    evaluate(pairs, ["starter"])
    folder = str(starter_bi_encoder_folder(find_model("starter"), pairs.sentences))
    found = evaluate(pairs, ["starter", folder], Part.ALL)
    (told,) = found.differences["spearman"]
    assert (told.a, told.b, told.difference, told.p) == ("starter", folder, 0, 1)
    assert len(found.rows) == len(pairs)


def test_labelled_pairs_are_probed_by_what_was_learned_from_the_other_part() -> None:
    pairs = labelled_pairs()
    found = evaluate(pairs, ["starter"], Part.TEST)
    (one,) = found.results
    assert one.probe is not None
    assert found.probe_part is Part.TEST
    assert one.figures["nli_accuracy"].value == one.probe.correct.mean() > 0.8  # the label stands in the last words
    assert one.probe.trained_on.tolist() == np.bincount(pairs.values[split_pairs(pairs)[Part.TRAIN]]).tolist()
    assert one.probe.confusion.sum(axis=1).tolist() == [20, 20, 20]
    assert found.positives == 20
    assert not {"spearman", "pearson"} & set(one.figures)
    assert found.as_dict()["models"]["starter"]["probe"]["judged_on"] == {
        "entailment": 20,
        "neutral": 20,
        "contradiction": 20,
    }


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


@pytest.mark.parametrize("pairs", [scored_pairs(), labelled_pairs()], ids=["scored", "labelled"])
def test_what_is_kept_is_what_was_measured(pairs: PairSet, tmp_path: Path) -> None:
    found = evaluate(pairs, ["starter", "no/such/model"], base=tmp_path)
    results.keep(found, tmp_path / "kept")
    assert same(results.load(tmp_path / "kept"), found)


def test_what_is_not_whole_is_not_opened(tmp_path: Path) -> None:
    results.keep(evaluate(scored_pairs(), ["starter"]), tmp_path)
    scores = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    for broken in ({**scores, "models": {"starter": {}}}, {**scores, "kind": "new"}, {}):
        (tmp_path / "scores.json").write_text(json.dumps(broken), encoding="utf-8")
        with pytest.raises(ValueError, match=r"holds no|new"):
            results.load(tmp_path)
    (tmp_path / "scores.json").write_text(json.dumps(scores), encoding="utf-8")
    (tmp_path / "arrays.npz").write_bytes(b"PK" + (tmp_path / "arrays.npz").read_bytes()[3:])
    with pytest.raises(ValueError, match="holds no finished evaluation"):
        results.load(tmp_path)
