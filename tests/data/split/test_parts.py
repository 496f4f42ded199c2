"""Published parts, and parts drawn by group, with minimum leakage and by question."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import PARTS, Part, Split, SplitMethod, SplitOptions, few_questions, split
from mrc_workbench.data.split.partition import FOLDS, Lessons, draw_groups, least_shared, shared_questions
from mrc_workbench.data.store import CATALOG, read_entry
from tests.data.split.worlds import chain, faq, set_of, tangle


def counts(found: Split) -> dict[str, int]:
    return {part.value: len(found.rows[part]) for part in PARTS}


def assert_whole(question_set: QuestionSet, found: Split) -> None:
    """Every answerable question is in one part, and the leak is counted right."""
    rows = np.concatenate([found.rows[part] for part in PARTS])
    assert np.array_equal(np.sort(rows), question_set.answerable)
    assert np.array_equal(found.rows[Part.ALL], question_set.answerable)
    assert all((np.diff(found.rows[part]) > 0).all() for part in PARTS)
    leaks = shared_questions(question_set.relevance, found.rows[Part.TEST], found.rows[Part.TRAIN])
    assert leaks == found.leaks


def test_sets_that_grouping_suits_keep_the_split_they_always_had() -> None:
    sample = read_entry(CATALOG["sample"]).question_set
    found = split(sample)
    digests = {part.value: hashlib.sha256(found.rows[part].astype("<i8").tobytes()).hexdigest()[:16] for part in PARTS}
    assert digests == {"train": "d5ef1fc6574e9d8d", "validation": "c7ab149411ef8531", "test": "fcfc745997f67658"}
    assert (found.method, found.leaks, found.is_published) == (SplitMethod.GROUPED, 0, False)
    assert np.array_equal(found.rows[Part.TEST], split(sample, SplitOptions(strict=True)).rows[Part.TEST])


def test_one_chain_of_shared_passages_is_cut_into_usable_parts() -> None:
    """As in NFCorpus, whose 323 questions all hang together: 321 of them were one part, and one was compared."""
    question_set = chain(323, more_passages=3000)
    strict = split(question_set, SplitOptions(strict=True))
    assert sorted(counts(strict).values()) == [0, 0, 323]
    found = split(question_set)
    assert counts(found) == {"train": 226, "validation": 32, "test": 65}
    assert found.method is SplitMethod.MINIMUM_LEAKAGE
    assert found.leaks <= 1
    assert_whole(question_set, found)


@pytest.mark.parametrize("seed", range(5))
def test_a_small_chain_has_questions_in_every_part(seed: int) -> None:
    question_set = chain(30, more_passages=9)
    found = split(question_set, SplitOptions(seed=seed))
    assert counts(found) == {"train": 21, "validation": 3, "test": 6}
    assert_whole(question_set, found)
    assert np.array_equal(found.rows[Part.TEST], split(question_set, SplitOptions(seed=seed)).rows[Part.TEST])


def test_questions_that_all_share_a_passage_are_split_one_by_one() -> None:
    question_set = tangle(200)
    found = split(question_set)
    assert (found.method, found.leaks) == (SplitMethod.BY_QUESTION, 40)
    assert counts(found) == {"train": 140, "validation": 20, "test": 40}
    assert_whole(question_set, found)
    assert not np.array_equal(found.rows[Part.TEST], split(question_set, SplitOptions(seed=1)).rows[Part.TEST])


def test_few_large_groups_are_drawn_by_their_questions() -> None:
    question_set = faq(answers=5, questions_each=100)
    assert 0 in counts(split(question_set, SplitOptions(strict=True))).values()
    found = split(question_set)
    assert (found.method, found.leaks) == (SplitMethod.GROUPED, 0)
    assert counts(found) == {"train": 300, "validation": 100, "test": 100}
    assert found.group_counts == {Part.ALL: 5, Part.TRAIN: 3, Part.VALIDATION: 1, Part.TEST: 1}
    assert_whole(question_set, found)


def test_one_article_is_split_by_its_passages() -> None:
    question_set = set_of(([row // 2] for row in range(400)), 200, titles=["The handbook"])
    assert sorted(counts(split(question_set, SplitOptions(strict=True))).values()) == [0, 0, 400]
    found = split(question_set)
    assert (found.method, found.leaks, found.by_article) == (SplitMethod.MINIMUM_LEAKAGE, 0, False)
    assert counts(found) == {"train": 280, "validation": 40, "test": 80}
    assert_whole(question_set, found)


@pytest.mark.parametrize("seed", range(25))
def test_no_part_of_any_set_is_too_small_where_another_way_is_left(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_questions, n_passages = int(rng.integers(100, 300)), int(rng.integers(5, 200))
    most, titles = int(rng.integers(1, 4)), int(rng.integers(1, 40))
    rows = (dict.fromkeys(rng.integers(0, n_passages, most).tolist()) for _ in range(n_questions))
    question_set = set_of(rows, n_passages, titles=[f"title {row}" for row in range(titles)] if seed % 2 else [])
    found = split(question_set, SplitOptions(validation=0.2, seed=seed))
    assert_whole(question_set, found)
    assert min(counts(found).values()) >= 20


@pytest.mark.parametrize("n_questions", [0, 1, 2, 3, 9])
def test_tiny_sets_are_split_too(n_questions: int) -> None:
    assert_whole(chain(n_questions), split(chain(n_questions)))


def published(*sizes: tuple[str, int]) -> QuestionSet:
    labels = [label for label, count in sizes for _ in range(count)]
    return chain(len(labels), parts=labels)


def test_published_parts_are_the_split() -> None:
    question_set = published(("train", 3), ("validation", 1), ("test", 2))
    found = split(question_set, SplitOptions(validation=0.4, test=0.4, seed=7))
    assert (found.method, found.is_published, counts(found)) == (
        SplitMethod.PUBLISHED,
        True,
        {"train": 3, "validation": 1, "test": 2},
    )
    assert (found.draws_validation, found.tests_on_validation) == (False, False)
    assert_whole(question_set, found)


def test_passages_that_published_parts_share_are_counted() -> None:
    question_set = set_of([[0], [0], [1], [2]], 3, parts=["train", "test", "test", "validation"])
    found = split(question_set)
    assert (found.leaks, counts(found)) == (1, {"train": 1, "validation": 1, "test": 2})
    assert "1 of 2 test questions share a relevant passage" in found.description


def test_missing_validation_part_is_drawn_from_the_training_questions() -> None:
    question_set = published(("train", 320), ("test", 50))
    found = split(question_set)
    assert counts(found) == {"train": 280, "validation": 40, "test": 50}
    assert found.draws_validation
    assert found.rows[Part.TEST].tolist() == list(range(320, 370))
    assert_whole(question_set, found)
    assert split(question_set, SplitOptions(0.0, 0.2)).rows[Part.TRAIN].tolist() == list(range(320))


def test_validation_part_is_the_test_part_if_no_test_part_is_published() -> None:
    found = split(published(("train", 320), ("validation", 50)))
    assert found.rows[Part.TEST].tolist() == list(range(320, 370))
    assert (found.tests_on_validation, found.draws_validation) == (True, True)
    assert "the validation part as test part" in found.description
    assert counts(split(published(("train", 1), ("validation", 1)))) == {"train": 1, "validation": 0, "test": 1}


def test_questions_of_no_published_part_are_for_training() -> None:
    found = split(published(("", 4), ("validation", 2), ("test", 2)))
    assert counts(found) == {"train": 4, "validation": 2, "test": 2}


def test_no_training_questions_are_drawn_from_published_parts() -> None:
    found = split(published(("validation", 30), ("test", 30)))
    assert counts(found) == {"train": 0, "validation": 30, "test": 30}


@pytest.mark.parametrize("label", ["train", "validation", "test"])
def test_a_single_published_part_is_split_as_any_set(label: str) -> None:
    """A test file alone would leave nothing to train on, and a training file alone nothing to compare."""
    found, plain = split(published((label, 100))), split(chain(100))
    assert not found.is_published
    assert all(np.array_equal(found.rows[part], plain.rows[part]) for part in PARTS)


def test_summary_says_how_the_parts_came_about() -> None:
    found = split(chain(323))
    assert found.summary() == {
        "method": "minimum_leakage",
        "published": False,
        "description": f"drawn so that parts share few passages, seed 0; {found.leaks} of 65 test questions share a "
        "relevant passage with a training question",
        "questions": {"all": 323, "train": 226, "validation": 32, "test": 65},
        "shared_test_questions": found.leaks,
    }
    assert split(faq(60, 5)).description == "drawn by passage, seed 0"
    assert split(published(("train", 3), ("validation", 1), ("test", 2))).description.startswith("as published")


def test_few_questions_are_warned_of() -> None:
    assert few_questions(20, "test questions") == ""
    warning = "Too few test questions: 1. With fewer than 20, most differences are chance."
    assert few_questions(1, "test questions") == warning


def test_unanswerable_questions_are_in_no_part() -> None:
    question_set = published(("train", 3), ("test", 3))
    questions = (replace(question_set.questions[0], relevant=()), *question_set.questions[1:])
    found = split(QuestionSet("world", question_set.passages, questions))
    assert 0 not in np.concatenate([found.rows[part] for part in PARTS])


def rest_of(relevance: object, rows: np.ndarray) -> np.ndarray:
    return np.setdiff1d(np.arange(relevance.shape[0]), rows)  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("wanted", [1, 20, 150, 299])
def test_a_chain_is_cut_once(wanted: int, seed: int) -> None:
    relevance = chain(300).relevance
    rows = least_shared(relevance, wanted, np.random.default_rng(seed))
    assert len(np.unique(rows)) == wanted
    assert shared_questions(relevance, rows, rest_of(relevance, rows)) == 1


def test_whole_components_come_first() -> None:
    relevance = faq(answers=50, questions_each=4).relevance
    rows = least_shared(relevance, 40, np.random.default_rng(0))
    assert len(rows) == 40
    assert shared_questions(relevance, rows, rest_of(relevance, rows)) == 0


def test_clusters_with_few_links_stay_whole() -> None:
    rng = np.random.default_rng(0)
    near = [[8 * (row // 10) + int(one) for one in rng.integers(0, 8, 3)] for row in range(500)]
    linked = [
        dict.fromkeys([*rows, int(rng.integers(400))] if row % 10 == 0 else rows) for row, rows in enumerate(near)
    ]
    relevance = set_of(linked, 400).relevance
    rows = least_shared(relevance, 100, rng)
    by_chance = rng.permutation(500)[:100]
    assert shared_questions(relevance, by_chance, rest_of(relevance, by_chance)) > 90
    assert shared_questions(relevance, rows, rest_of(relevance, rows)) < 20


@pytest.mark.parametrize("seed", range(20))
def test_any_graph_gives_as_many_as_wanted_and_the_same_by_one_seed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_questions, n_passages = int(rng.integers(1, 120)), int(rng.integers(1, 150))
    relevance = set_of(
        (dict.fromkeys(rng.integers(0, n_passages, int(rng.integers(1, 4))).tolist()) for _ in range(n_questions)),
        n_passages,
    ).relevance
    wanted = int(rng.integers(0, n_questions + 1))
    first, again = (least_shared(relevance, wanted, np.random.default_rng(seed)) for _ in range(2))
    assert len(np.unique(first)) == len(first) == wanted
    assert np.array_equal(first, again)
    assert not wanted or (first.min() >= 0 and first.max() < n_questions)


def test_shared_questions_are_counted() -> None:
    relevance = set_of([[0], [0, 1], [2], [1]], 3).relevance
    assert shared_questions(relevance, np.array([0, 2, 3]), np.array([1])) == 2
    assert shared_questions(relevance, np.array([1]), np.array([], dtype=np.int64)) == 0
    assert shared_questions(tangle(10).relevance, np.arange(5), np.arange(5, 10)) == 5


def test_groups_are_drawn_up_to_the_wanted_questions() -> None:
    groups = np.repeat([0, 1, 2, 3], [30, 2, 3, 4])
    assert draw_groups(groups, 5, np.array([0, 2, 1, 3])).tolist() == [2, 1]
    assert draw_groups(groups, 0, np.array([0, 1, 2, 3])).tolist() == []


def test_folds_by_group_are_those_they_always_were() -> None:
    sample = read_entry(CATALOG["sample"]).question_set
    folds = Lessons.of(sample, sample.answerable).folds
    assert hashlib.sha256(folds.astype("<i8").tobytes()).hexdigest()[:16] == "c270913098c12ba6"
    assert Lessons.of(sample, sample.answerable).leaks == 0


def test_a_chain_is_folded_with_a_cut_between_folds() -> None:
    lessons = Lessons.of(chain(323), np.arange(323))
    assert np.bincount(lessons.folds).tolist() == [64, 64, 65, 65, 65]
    assert 0 < lessons.leaks <= 2 * (FOLDS - 1)


def test_questions_that_all_share_a_passage_are_folded_one_by_one() -> None:
    lessons = Lessons.of(tangle(200), np.arange(200))
    assert np.bincount(lessons.folds).tolist() == [40] * FOLDS
    assert lessons.leaks == 200


def test_passages_of_one_article_are_folded() -> None:
    question_set = set_of(([row // 2] for row in range(100)), 50, titles=["The handbook"])
    lessons = Lessons.of(question_set, np.arange(100))
    assert lessons.leaks == 0
    assert np.bincount(lessons.folds).tolist() == [20] * FOLDS


def test_a_giant_group_beside_small_ones_is_cut() -> None:
    rows = [*([row, row + 1] for row in range(200)), *([201 + row] for row in range(8))]
    lessons = Lessons.of(set_of(rows, 209), np.arange(208))
    assert np.bincount(lessons.folds).max() <= 42
    assert lessons.leaks <= 2 * (FOLDS - 1)


def test_few_answers_make_fewer_folds() -> None:
    lessons = Lessons.of(faq(answers=3, questions_each=50), np.arange(150))
    assert sorted(np.bincount(lessons.folds, minlength=FOLDS).tolist()) == [0, 0, 50, 50, 50]
    assert lessons.leaks == 0


def test_no_questions_have_no_folds() -> None:
    assert Lessons.of(chain(5), np.zeros(0, dtype=np.int64)).folds.tolist() == []
