"""Published parts, and parts drawn by group, with minimum leakage and by question."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import PARTS, Part, Split, SplitMethod, SplitOptions, few_questions, split
from mrc_workbench.data.split.partition import shared_questions
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
