from pathlib import Path

import pytest

from retrieval.compare import compare, failures, is_kept
from retrieval.experiment import Experiment
from retrieval.hub import ModelError
from retrieval.metrics import evaluate, measures
from tests.doubles import PASSAGES, QUESTIONS, small_set, texts_of

BIGRAMS = {"name": "bigrams", "kind": "bm25", "analyzer": "bigram"}
WORDS = {"name": "words", "kind": "bm25", "analyzer": "word"}
LOST = {"name": "lost", "kind": "dense", "model": "no such model!"}
KS = (1, 3)


def experiment_of(*specs: dict[str, object], **more: object) -> Experiment:
    return Experiment.model_validate({"data": "small", "ks": KS, "retriever": specs} | more)


def test_results_are_the_scores_of_the_rankings_in_order() -> None:
    comparison = compare(experiment_of(BIGRAMS, WORDS), small_set())
    assert [result.name for result in comparison.results] == ["bigrams", "words"]
    assert comparison.asked == small_set()
    for result in comparison.results:
        assert result.rankings.indices.shape == (len(QUESTIONS), 10)
        assert result.scores.means() == evaluate(result.rankings, small_set(), KS).means()
    # the first passage of each question, as the words of the small set have it; q6 has two relevant passages
    assert comparison.results[0].scores.per_question["recall@1"].tolist() == [1, 1, 1, 1, 1, 0.5]
    assert comparison.results[0].scores.per_question["hit@1"].tolist() == [1] * 6


def test_a_second_comparison_is_the_same() -> None:
    first, second = (compare(experiment_of(BIGRAMS, WORDS), small_set()).as_dict() for _ in range(2))
    assert first == second  # the seconds too: they are those of the making


def test_one_part_over_the_whole_corpus() -> None:
    whole = compare(experiment_of(BIGRAMS), small_set())
    rows = {}
    for part in ("train", "validation", "test"):
        shares = {"validation_share": 0.2, "test_share": 0.4}
        comparison = compare(experiment_of(BIGRAMS, split=part, **shares), small_set())
        assert comparison.asked.passages == PASSAGES
        rows[part] = [QUESTIONS.index(question) for question in comparison.asked.questions]
        expected = whole.results[0].rankings.indices[rows[part]]
        assert comparison.results[0].rankings.indices.tolist() == expected.tolist()
    assert sorted(row for part in rows.values() for row in part) == list(range(6))


def test_an_empty_part_is_told() -> None:
    with pytest.raises(ValueError, match="the validation part has no question with a relevant passage"):
        compare(experiment_of(BIGRAMS, split="validation", validation_share=0), small_set())


def test_a_retriever_that_failed_has_an_error_and_no_score() -> None:
    hybrid = {"name": "hybrid", "kind": "hybrid", "of": ["bigrams", "lost"]}
    comparison = compare(experiment_of(LOST, BIGRAMS, hybrid), small_set())
    lost, bigrams, both = comparison.results
    for failed in (lost, both):
        assert "no such model!" in str(failed.error)
        assert (failed.scores, failed.rankings) == (None, None)
    assert bigrams.error is None
    assert bigrams.scores.means()["hit@1"] == 1
    written = comparison.as_dict()["retrievers"]
    told = {"error": str(lost.error), "code": "model_not_found", "model": "no such model!"}
    assert written["lost"] == written["hybrid"] == told


def test_a_failure_while_searching_is_that_retrievers_own(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "modules.json").write_text("no JSON")
    broken = {"name": "broken", "kind": "dense", "model": "broken"}
    hybrid = {"name": "hybrid", "kind": "hybrid", "of": ["broken", "words"]}
    comparison = compare(experiment_of(broken, WORDS, hybrid), small_set(), base=tmp_path)
    assert [result.error is None for result in comparison.results] == [False, True, False]
    assert set(comparison.as_dict()["retrievers"]["broken"]) == {"error"}


def test_what_scores_json_holds() -> None:
    written = compare(experiment_of(BIGRAMS, split="test", test_share=0.5), small_set()).as_dict()
    asked = [question for question in QUESTIONS if question.id in ("q1", "q2", "q3", "q4", "q5", "q6")]
    assert set(written) == {"data", "fingerprint", "split", "questions", "passages", "retrievers"}
    assert (written["data"], written["split"], written["passages"]) == ("small", "test", 5)
    assert 0 < written["questions"] < len(asked)
    told = {"build_seconds", "query_seconds", "model_seconds", "memory_bytes", "short", "unanswered"}
    assert set(written["retrievers"]["bigrams"]) == {*measures(KS), *told}


def test_progress_only_grows_and_ends_at_1() -> None:
    told: list[tuple[str, float]] = []
    rerank = {"name": "lost too", "kind": "rerank", "first": "lost"}
    compare(experiment_of(BIGRAMS, LOST, rerank, WORDS), small_set(), on_progress=lambda *word: told.append(word))
    assert told == [("bigrams", 0), ("lost", 0.25), ("lost too", 0.5), ("words", 0.75), ("", 1)]


def test_unanswerable_questions_are_not_asked() -> None:
    asked = compare(experiment_of(BIGRAMS), small_set().with_questions([3, 0])).asked
    assert texts_of(asked.questions) == texts_of([QUESTIONS[3], QUESTIONS[0]])


def test_a_comparison_is_kept_once_it_was_run_and_failures_are_not_tried_again() -> None:
    question_set, experiment = small_set(), experiment_of(WORDS, LOST)
    assert not is_kept(experiment, question_set)
    first = compare(experiment, question_set)
    assert is_kept(experiment, question_set)
    failed = failures(first.as_dict())
    assert list(failed) == ["lost"]
    assert isinstance(failed["lost"], ModelError)
    assert (failed["lost"].code, str(failed["lost"])) == ("model_not_found", str(first.results[1].error))
    assert compare(experiment, question_set, failed=failed).results[1].error is failed["lost"]
