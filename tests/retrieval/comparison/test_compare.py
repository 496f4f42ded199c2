"""Comparisons, and their preparation in the background."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mrc_workbench.data.problems import Failure
from mrc_workbench.data.workspace import workspace
from mrc_workbench.models.files import ModelError
from mrc_workbench.retrieval.comparison import first_stage as making
from mrc_workbench.retrieval.comparison.compare import Result, build_context, compare, write_packaged_bases
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.spec import CachedRetriever
from mrc_workbench.retrieval.lexical.bm25 import BM25
from mrc_workbench.retrieval.measures import evaluate, measure_names
from mrc_workbench.retrieval.rankings import Rankings
from mrc_workbench.retrieval.trec import RunError, write_run
from tests.data.split.worlds import chain
from tests.doubles import PASSAGES, QUESTIONS, small_set, texts_of
from tests.retrieval.compared import BIGRAMS, LOST_MODEL, WORDS, experiment_of

KS = (1, 3)


def test_returns_scores_in_experiment_order() -> None:
    comparison = compare(experiment_of(BIGRAMS, WORDS), small_set())
    assert [result.name for result in comparison.results] == ["bigrams", "words"]
    assert comparison.question_set == small_set()
    for result in comparison.results:
        assert result.rankings.indices.shape == (len(QUESTIONS), len(PASSAGES))
        assert result.scores.means() == evaluate(result.rankings, small_set(), KS).means()
    # the first passage of each question, as the words of the small set have it; q6 has two relevant passages
    assert comparison.results[0].scores.per_question["recall@1"].tolist() == [1, 1, 1, 1, 1, 0.5]
    assert comparison.results[0].scores.per_question["hit@1"].tolist() == [1] * 6
    again = compare(experiment_of(BIGRAMS, WORDS), small_set())
    assert again.as_dict() == comparison.as_dict()  # the seconds too: they are those of the first search


def test_evaluates_split_part_over_whole_corpus() -> None:
    whole = compare(experiment_of(BIGRAMS), small_set())
    rows = {}
    for part in ("train", "validation", "test"):
        shares = {"validation_fraction": 0.2, "test_fraction": 0.4}
        comparison = compare(experiment_of(BIGRAMS, split=part, **shares), small_set())
        assert comparison.question_set.passages == PASSAGES
        rows[part] = [QUESTIONS.index(question) for question in comparison.question_set.questions]
        expected = whole.results[0].rankings.indices[rows[part]]
        assert comparison.results[0].rankings.indices.tolist() == expected.tolist()
    assert sorted(row for part in rows.values() for row in part) == list(range(6))
    evaluated = compare(experiment_of(BIGRAMS), small_set().with_questions([3, 0])).question_set
    assert texts_of(evaluated.questions) == texts_of([QUESTIONS[3], QUESTIONS[0]])
    with pytest.raises(ValueError, match="the validation part has no question with a relevant passage"):
        compare(experiment_of(BIGRAMS, split="validation", validation_fraction=0), small_set())


def test_reports_error_without_score_for_failed_retriever() -> None:
    hybrid = {"name": "hybrid", "kind": "hybrid", "retrievers": ["bigrams", "lost"]}
    comparison = compare(experiment_of(LOST_MODEL, BIGRAMS, hybrid), small_set())
    lost, bigrams, both = comparison.results
    for failed in (lost, both):
        assert "no such model!" in str(failed.error)
        assert (failed.scores, failed.rankings) == (None, None)
    assert bigrams.error is None
    assert bigrams.scores.means()["hit@1"] == 1
    written = comparison.as_dict()["retrievers"]
    expected_error = {"error": str(lost.error), "code": "model_not_found", "model": "no such model!"}
    assert written["lost"] == written["hybrid"] == expected_error


@pytest.mark.slow
def test_failed_search_does_not_affect_other_retrievers(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "modules.json").write_text("no JSON")
    broken = {"name": "broken", "kind": "dense", "model": "broken"}
    hybrid = {"name": "hybrid", "kind": "hybrid", "retrievers": ["broken", "words"]}
    comparison = compare(experiment_of(broken, WORDS, hybrid), small_set(), base=tmp_path)
    assert [result.error is None for result in comparison.results] == [False, True, False]
    entry = comparison.as_dict()["retrievers"]["broken"]
    assert isinstance(entry, dict)
    assert (entry["code"], entry["model"]) == ("unloadable", "broken")
    assert not [name for name in entry if "@" in name]


def test_writes_scores_json_fields() -> None:
    written = compare(experiment_of(BIGRAMS, split="test", test_fraction=0.5), small_set()).as_dict()
    names = {"data", "fingerprint", "split", "questions", "passages", "parts", "warnings", "retrievers"}
    assert set(written) == names
    assert (written["data"], written["split"], written["passages"]) == ("small", "test", 5)
    assert 0 < written["questions"] < len(QUESTIONS)
    cost_fields = {"build_seconds", "query_seconds", "model_seconds", "memory_bytes", "incomplete", "unanswered"}
    assert set(written["retrievers"]["bigrams"]) == {*measure_names(KS), *cost_fields}


def test_progress_increases_to_1() -> None:
    reported: list[tuple[str, float]] = []
    rerank = {"name": "lost too", "kind": "rerank", "first_stage": "lost"}
    experiment = experiment_of(BIGRAMS, LOST_MODEL, rerank, WORDS)
    compare(experiment, small_set(), on_progress=lambda *word: reported.append(word))
    assert list(dict.fromkeys(name for name, _ in reported)) == ["bigrams", "lost", "lost too", "words", ""]
    shares = [share for _, share in reported]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 1)
    bigrams, words = ([share for name, share in reported if name == searched] for searched in ("bigrams", "words"))
    assert bigrams[0] < bigrams[-1] < words[0] < words[-1]


def test_caches_rankings_and_stores_failure_details() -> None:
    question_set = small_set()
    experiment = experiment_of(WORDS, LOST_MODEL)
    reported = list[Result]()
    words = build_context(experiment, question_set).retrievers["words"]
    assert isinstance(words, CachedRetriever)
    assert not words.is_cached(texts_of(question_set.questions), words.depth)
    first = compare(experiment, question_set, on_result=reported.append)
    assert words.is_cached(texts_of(question_set.questions), words.depth)
    assert tuple(reported) == first.results
    error = first.results[1].error
    written = first.as_dict()["retrievers"]
    assert [name for name, entry in written.items() if "error" in entry] == ["lost"]
    failed = Failure.from_dict(written["lost"])
    assert isinstance(error, ModelError)
    assert (failed.code, str(failed), failed.details) == ("model_not_found", str(error), error.details)


def searched_depths(patch: pytest.MonkeyPatch, *specs: dict[str, object], **more: object) -> list[tuple[str, int]]:
    """Compare, and return which BM25 was searched how deep."""
    searches: list[tuple[str, int]] = []

    class RecordingBM25(BM25):
        def search(self, questions: list[str], k: int) -> Rankings:
            searches.append((self.name, k))
            return super().search(questions, k)

    patch.setattr(making, "BM25", RecordingBM25)
    compare(experiment_of(*specs, **more), small_set())
    return searches


def test_searches_each_retriever_once_at_largest_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    hybrid = {"kind": "hybrid", "retrievers": ["words", "bigrams"], "top_k": 40}
    hybrids = [hybrid | {"name": fusion, "fusion": fusion} for fusion in ("rrf", "min-max", "z-score")]
    assert searched_depths(monkeypatch, WORDS, BIGRAMS, *hybrids) == [("words", 40), ("bigrams", 40)]
    assert searched_depths(monkeypatch, WORDS, BIGRAMS, *hybrids) == []
    weighted = hybrids[-1] | {"name": "weighted", "weights": [1, 3]}
    assert searched_depths(monkeypatch, WORDS, BIGRAMS, weighted) == []


def test_wrapping_does_not_change_component_scores() -> None:
    hybrid = {"name": "hybrid", "kind": "hybrid", "retrievers": ["words", "bigrams"], "top_k": 2}
    deep = {"name": "deep", "kind": "hybrid", "retrievers": ["hybrid", "words"], "top_k": 60}
    alone = compare(experiment_of(WORDS, BIGRAMS, hybrid), small_set()).results
    wrapped = compare(experiment_of(WORDS, BIGRAMS, hybrid, deep), small_set()).results
    assert [result.scores.means() for result in alone] == [result.scores.means() for result in wrapped[:3]]
    assert wrapped[2].rankings.indices.shape == (6, 5)  # there are no more passages
    np.testing.assert_array_equal(wrapped[2].rankings.indices[:, :10], alone[2].rankings.indices)


def test_counts_queries_with_few_or_no_results() -> None:
    result = compare(experiment_of(WORDS, ks=(1, 2)), small_set()).results[0]
    counts = (result.rankings.indices[:, :2] >= 0).sum(axis=1)
    assert (result.incomplete, result.unanswered) == (int((counts < 2).sum()), int((counts == 0).sum()))
    assert result.incomplete > 0
    first_only = compare(experiment_of(BIGRAMS, ks=(1,)), small_set()).results[0]
    assert (first_only.incomplete, first_only.unanswered) == (0, 0)


def write(folder: Path, *lines: str) -> dict[str, object]:
    (folder / "theirs.trec").write_text("".join(f"{line} x\n" for line in lines))
    return {"name": "theirs", "kind": "run", "path": "theirs.trec"}


def test_reimported_run_scores_like_original(tmp_path: Path) -> None:
    original = compare(experiment_of(BIGRAMS, split="test", test_fraction=0.5), small_set())
    write_run(tmp_path / "ours.trec", original.results[0].rankings, original.question_set, "ours")
    run = {"name": "run", "kind": "run", "path": "ours.trec"}
    both = experiment_of(BIGRAMS, run, split="test", test_fraction=0.5)
    native, imported = compare(both, small_set(), base=tmp_path).results
    depth = imported.rankings.indices.shape[1]
    np.testing.assert_array_equal(imported.rankings.indices, native.rankings.indices[:, :depth])
    for measure, values in imported.scores.per_question.items():
        np.testing.assert_array_equal(values, native.scores.per_question[measure])
    assert (imported.build_seconds, imported.query_seconds, imported.memory_bytes) == (0, 0, 0)


def test_omits_metrics_deeper_than_run(tmp_path: Path) -> None:
    run = write(tmp_path, "q1 Q0 p2 1 9", "q1 Q0 p1 2 8", "q2 Q0 p2 1 7", "q9 Q0 p2 1 7", "q2 Q0 p9 2 6")
    hybrid = {"name": "hybrid", "kind": "hybrid", "retrievers": ["theirs", "bigrams"], "fusion": "min-max"}
    hybrid["weights"] = [2, 1]
    experiment = experiment_of(run, BIGRAMS, hybrid)
    comparison = compare(experiment, small_set(), base=tmp_path)
    theirs, _, both = comparison.results
    assert theirs.rankings.indices.tolist() == [[1, 0], [1, -1], *[[-1, -1]] * 4]
    assert theirs.scores.ks == (1,)
    per_question = {name: values.tolist() for name, values in theirs.scores.per_question.items()}
    assert per_question == {name: [0, 1, 0, 0, 0, 0] for name in ("recall@1", "hit@1", "mrr@1", "ndcg@1")}
    assert (theirs.incomplete, theirs.unanswered) == (4, 4)
    counts = {"depth": 2, "questions": 2, "other_questions": 1, "unknown_passages": 1, "repeated": 0, "aliases": 0}
    assert theirs.notes == counts
    assert comparison.as_dict()["retrievers"]["theirs"]["notes"] == theirs.notes
    assert set(both.scores.per_question) == set(measure_names(KS))
    assert both.scores.per_question["hit@1"].tolist() == [0, 1, 1, 1, 1, 1]  # the run counts twice where it answers
    again = compare(experiment, small_set(), base=tmp_path)
    assert again.results[0].notes == theirs.notes


def test_credits_run_results_that_name_merged_duplicates(tmp_path: Path) -> None:
    run = write(tmp_path, "q1 Q0 copy 1 9", "q2 Q0 p2 1 7")
    before = compare(experiment_of(run), small_set(), base=tmp_path).results[0]
    assert (before.notes["unknown_passages"], before.notes["aliases"]) == (1, 0)
    (relevant,) = small_set().questions[0].relevant
    aliased = replace(small_set(), aliases={"copy": relevant})
    theirs = compare(experiment_of(run), aliased, base=tmp_path).results[0]
    assert (theirs.notes["unknown_passages"], theirs.notes["aliases"]) == (0, 1)
    assert theirs.scores.per_question["recall@1"][0] == 1


@pytest.mark.slow
def test_limits_reranked_run_to_run_depth(tmp_path: Path) -> None:
    run = write(tmp_path, "q1 Q0 p2 1 9", "q1 Q0 p1 2 8", "q2 Q0 p2 1 7")
    rerank = {"name": "reranked", "kind": "rerank", "first_stage": "theirs", "weight": 1}
    result = compare(experiment_of(run, rerank), small_set(), base=tmp_path).results[1]
    assert result.error is None
    assert [sorted(row) for row in result.rankings.indices.tolist()] == [[0, 1], [-1, 1], *[[-1, -1]] * 4]
    assert result.scores.ks == (1,)


def test_reports_unreadable_run_with_its_line(tmp_path: Path) -> None:
    experiment = experiment_of(write(tmp_path, "q1 Q0 p2 1 9", "q1 Q0 p1 2 eight"), WORDS)
    comparison = compare(experiment, small_set(), base=tmp_path)
    entry = comparison.as_dict()["retrievers"]["theirs"]
    assert (entry["code"], entry["run"], entry["line"]) == ("run_broken_line", "theirs.trec", 2)
    error = Failure.from_dict(entry)
    assert isinstance(comparison.results[0].error, RunError)
    assert (error.code, str(error), error.details) == (entry["code"], entry["error"], {"run": "theirs.trec", "line": 2})


@pytest.mark.slow
def test_reuses_cached_vectors_for_other_weight_depth_or_index(monkeypatch: pytest.MonkeyPatch) -> None:
    def files(kind: str) -> set[str]:
        return {path.name for path in (workspace() / "cache" / kind).iterdir()}

    dense = {"name": "d", "kind": "dense"}
    rerank = {"name": "r", "kind": "rerank", "first_stage": "bigrams"}
    first = compare(experiment_of(BIGRAMS, dense, rerank | {"rerank_top_k": 5}), small_set()).results
    vectors = files("vectors")
    pairs = files("pairs")
    for name in ("encoders.load_bi_encoder", "encoders.load_cross_encoder"):
        monkeypatch.setattr(f"mrc_workbench.models.{name}", lambda *_: pytest.fail("a model was loaded"))
    others = [rerank | {"name": "r2", "rerank_top_k": 3, "weight": 0.3}, dense | {"name": "d2", "index": "hnsw"}]
    second = compare(experiment_of(BIGRAMS, *others), small_set()).results
    assert [result.error for result in (*first, *second)] == [None] * 6
    assert (files("vectors"), files("pairs")) == (vectors, pairs)
    by_name = {result.name: result for result in (*first, *second)}
    assert by_name["d2"].rankings.indices.tolist() == by_name["d"].rankings.indices.tolist()
    assert by_name["d2"].memory_bytes > by_name["d"].memory_bytes > 0
    assert 0 < by_name["r2"].model_seconds <= by_name["r"].model_seconds
    assert by_name["d2"].model_seconds == pytest.approx(by_name["d"].model_seconds)


@pytest.mark.slow
@pytest.mark.packaged
def test_writes_missing_packaged_models() -> None:
    dense = making.DenseSpec(name="Dense", model="packaged:multilingual-e5-small")
    unknown = making.DenseSpec(name="unknown", model="packaged:nothing")
    experiment = Experiment(data="sample", retriever=(making.BM25Spec(name="BM25"), unknown, dense))
    write_packaged_bases(experiment)
    (weights,) = (workspace() / "cache" / "packaged").glob("multilingual-e5-small-*/model.safetensors")
    written = weights.stat().st_mtime_ns
    write_packaged_bases(experiment)
    assert weights.stat().st_mtime_ns == written


def test_evaluates_full_test_part_of_linked_questions() -> None:
    """One of NFCorpus's 323 questions was compared without a warning."""
    compared = compare(experiment_of(WORDS, split="test"), chain(323, more_passages=300))
    written = compared.as_dict()
    assert (written["questions"], compared.warnings) == (65, [])
    assert "warnings" not in written
    parts = written["parts"]
    assert isinstance(parts, dict)
    assert (parts["method"], parts["questions"]["validation"]) == ("minimum_leakage", 32)
    assert parts["shared_test_questions"] == 0


def test_evaluates_published_split_parts() -> None:
    parts = ["train"] * 40 + ["validation"] * 25
    compared = compare(experiment_of(WORDS, split="test"), chain(65, parts=parts))
    assert [question.id for question in compared.question_set.questions] == [f"q{row}" for row in range(40, 65)]
    assert compared.split is not None
    assert compared.split.is_published


def test_warns_about_few_test_or_training_questions() -> None:
    mix = {"name": "mix", "kind": "learned", "retrievers": ["words"], "lexical": False}
    experiments = (experiment_of(WORDS, mix, split="test", test_fraction=share) for share in (0.8, 0.85))
    enough, few = (compare(experiment, chain(100)) for experiment in experiments)
    assert (enough.results[1].training_query_count, few.results[1].training_query_count) == (20, 15)
    assert few.warnings == ["Too few training questions for mix: 15. With fewer than 20, most differences are chance."]
    few = compare(experiment_of(WORDS, split="test"), chain(30))
    assert few.warnings == ["Too few questions are compared: 6. With fewer than 20, most differences are chance."]
    assert few.as_dict()["warnings"] == few.warnings
