"""Published parts, and parts drawn by group, with minimum leakage and by question."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import PARTS, Part, Split, SplitMethod, SplitOptions, few_questions, partition, split
from mrc_workbench.data.split.partition import FOLDS, TrainingQueries, count_shared_questions
from mrc_workbench.data.store import CATALOG, read_entry
from tests.data.split.worlds import chain, faq, set_of, tangle

HANDBOOK = set_of(([row // 2] for row in range(400)), 200, titles=["The handbook"])


def counts(result: Split) -> dict[str, int]:
    return {part.value: len(result.rows[part]) for part in PARTS}


def assert_whole(question_set: QuestionSet, result: Split) -> None:
    """Check that every answerable question is in exactly one part, and that the leaks are correct."""
    rows = np.concatenate([result.rows[part] for part in PARTS])
    assert np.array_equal(np.sort(rows), question_set.answerable)
    assert np.array_equal(result.rows[Part.ALL], question_set.answerable)
    assert all((np.diff(result.rows[part]) > 0).all() for part in PARTS)
    leaks = count_shared_questions(question_set.relevance, result.rows[Part.TEST], result.rows[Part.TRAIN])
    assert leaks == result.leaks


def test_grouped_split_is_unchanged() -> None:
    sample = read_entry(CATALOG["sample"]).question_set
    result = split(sample)
    digests = {part.value: hashlib.sha256(result.rows[part].astype("<i8").tobytes()).hexdigest()[:16] for part in PARTS}
    assert digests == {"train": "d5ef1fc6574e9d8d", "validation": "c7ab149411ef8531", "test": "fcfc745997f67658"}
    assert (result.method, result.leaks, result.is_published) == (SplitMethod.GROUPED, 0, False)
    assert np.array_equal(result.rows[Part.TEST], split(sample, SplitOptions(strict=True)).rows[Part.TEST])


@pytest.mark.parametrize(
    ("question_set", "method", "max_leaks", "sizes"),
    [
        # as the 323 linked questions of NFCorpus: a split by groups would leave single questions in two parts
        (chain(323, more_passages=3000), SplitMethod.MINIMUM_LEAKAGE, 1, [226, 32, 65]),
        (tangle(200), SplitMethod.BY_QUESTION, 40, [140, 20, 40]),
        (faq(answers=5, questions_each=100), SplitMethod.GROUPED, 0, [300, 100, 100]),
        (HANDBOOK, SplitMethod.MINIMUM_LEAKAGE, 0, [280, 40, 80]),
    ],
    ids=["a chain", "a passage of all", "few large groups", "a single article"],
)
def test_samples_again_if_a_part_of_groups_is_empty(
    question_set: QuestionSet, method: SplitMethod, max_leaks: int, sizes: list[int]
) -> None:
    assert 0 in counts(split(question_set, SplitOptions(strict=True))).values()
    result = split(question_set)
    assert (result.method, [*counts(result).values()], result.by_article) == (method, sizes, False)
    assert result.leaks <= max_leaks
    assert_whole(question_set, result)


def test_counts_the_groups_of_parts() -> None:
    result = split(faq(answers=5, questions_each=100))
    assert result.group_counts == {Part.ALL: 5, Part.TRAIN: 3, Part.VALIDATION: 1, Part.TEST: 1}


def test_seed_selects_the_questions() -> None:
    first, second = (split(tangle(200), SplitOptions(seed=seed)).rows[Part.TEST] for seed in (0, 1))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("seed", range(5))
def test_small_chain_has_questions_in_every_part(seed: int) -> None:
    question_set = chain(30, more_passages=9)
    result = split(question_set, SplitOptions(seed=seed))
    assert counts(result) == {"train": 21, "validation": 3, "test": 6}
    assert_whole(question_set, result)
    assert np.array_equal(result.rows[Part.TEST], split(question_set, SplitOptions(seed=seed)).rows[Part.TEST])


@pytest.mark.parametrize("seed", range(25))
def test_no_part_is_too_small_if_avoidable(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_questions = int(rng.integers(100, 300))
    n_passages = int(rng.integers(5, 200))
    most = int(rng.integers(1, 4))
    titles = int(rng.integers(1, 40))
    rows = (dict.fromkeys(rng.integers(0, n_passages, most).tolist()) for _ in range(n_questions))
    question_set = set_of(rows, n_passages, titles=[f"title {row}" for row in range(titles)] if seed % 2 else [])
    result = split(question_set, SplitOptions(validation=0.2, seed=seed))
    assert_whole(question_set, result)
    assert min(counts(result).values()) >= 20


@pytest.mark.parametrize("n_questions", [0, 1, 2, 3, 9])
def test_splits_tiny_sets(n_questions: int) -> None:
    assert_whole(chain(n_questions), split(chain(n_questions)))


def published(*sizes: tuple[str, int]) -> QuestionSet:
    labels = [label for label, count in sizes for _ in range(count)]
    return chain(len(labels), parts=labels)


@pytest.mark.parametrize(
    ("sizes", "expected", "draws_validation", "tests_on_validation"),
    [
        ({"train": 3, "validation": 1, "test": 2}, [3, 1, 2], False, False),
        ({"train": 320, "test": 50}, [280, 40, 50], True, False),
        ({"train": 320, "validation": 50}, [280, 40, 50], True, True),
        ({"train": 1, "validation": 1}, [1, 0, 1], False, True),
        ({"": 4, "validation": 2, "test": 2}, [4, 2, 2], False, False),  # questions without a part are for training
        ({"validation": 30, "test": 30}, [0, 30, 30], False, False),  # no training questions are drawn from them
    ],
)
def test_uses_published_parts(
    sizes: dict[str, int], expected: list[int], draws_validation: bool, tests_on_validation: bool
) -> None:
    question_set = published(*sizes.items())
    result = split(question_set, SplitOptions(seed=7))
    assert ([*counts(result).values()], result.method) == (expected, SplitMethod.PUBLISHED)
    assert (result.draws_validation, result.tests_on_validation) == (draws_validation, tests_on_validation)
    assert result.rows[Part.TEST].tolist() == list(range(sum(sizes.values())))[-expected[2] :]
    assert ("the validation part as test part" in result.description) is tests_on_validation
    assert_whole(question_set, result)


def test_options_do_not_change_published_parts() -> None:
    question_set = published(("train", 320), ("validation", 10), ("test", 50))
    assert counts(split(question_set, SplitOptions(0.4, 0.4))) == {"train": 320, "validation": 10, "test": 50}
    without_validation = published(("train", 320), ("test", 50))
    assert split(without_validation, SplitOptions(0.0, 0.2)).rows[Part.TRAIN].tolist() == list(range(320))


def test_counts_leaks_of_published_parts() -> None:
    question_set = set_of([[0], [0], [1], [2]], 3, parts=["train", "test", "test", "validation"])
    result = split(question_set)
    assert (result.leaks, counts(result)) == (1, {"train": 1, "validation": 1, "test": 2})
    assert "1 of 2 test questions share a relevant passage" in result.description


@pytest.mark.parametrize("label", ["train", "validation", "test"])
def test_ignores_a_single_published_part(label: str) -> None:
    """A single published part is not used: the other parts would be empty."""
    result = split(published((label, 100)))
    plain = split(chain(100))
    assert not result.is_published
    assert all(np.array_equal(result.rows[part], plain.rows[part]) for part in PARTS)


def test_summary_describes_the_method() -> None:
    result = split(chain(323))
    assert result.summary() == {
        "method": "minimum_leakage",
        "published": False,
        "description": f"drawn so that parts share few passages, seed 0; {result.leaks} of 65 test questions share a "
        "relevant passage with a training question",
        "questions": {"all": 323, "train": 226, "validation": 32, "test": 65},
        "shared_test_questions": result.leaks,
    }
    assert split(faq(60, 5)).description == "drawn by passage, seed 0"
    assert split(published(("train", 3), ("validation", 1), ("test", 2))).description.startswith("as published")


def test_warns_of_few_questions() -> None:
    assert few_questions(20, "test questions") == ""
    warning = "Too few test questions: 1. With fewer than 20, most differences are chance."
    assert few_questions(1, "test questions") == warning


def test_unanswerable_questions_are_in_no_part() -> None:
    question_set = published(("train", 3), ("test", 3))
    questions = (replace(question_set.questions[0], relevant=()), *question_set.questions[1:])
    result = split(QuestionSet("world", question_set.passages, questions))
    assert 0 not in np.concatenate([result.rows[part] for part in PARTS])


def rest_of(relevance: object, rows: np.ndarray) -> np.ndarray:
    return np.setdiff1d(np.arange(relevance.shape[0]), rows)  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("target_count", [1, 20, 150, 299])
def test_cuts_a_chain_once(target_count: int, seed: int) -> None:
    relevance = chain(300).relevance
    rows = partition.select_least_shared(relevance, target_count, np.random.default_rng(seed))
    assert len(np.unique(rows)) == target_count
    assert count_shared_questions(relevance, rows, rest_of(relevance, rows)) == 1


def test_selects_whole_components_first() -> None:
    relevance = faq(answers=50, questions_each=4).relevance
    rows = partition.select_least_shared(relevance, 40, np.random.default_rng(0))
    assert len(rows) == 40
    assert count_shared_questions(relevance, rows, rest_of(relevance, rows)) == 0


def test_keeps_loosely_linked_clusters_whole() -> None:
    rng = np.random.default_rng(0)
    near = [[8 * (row // 10) + int(passage) for passage in rng.integers(0, 8, 3)] for row in range(500)]
    linked = [dict.fromkeys([*rows, int(rng.integers(400))] if n % 10 == 0 else rows) for n, rows in enumerate(near)]
    relevance = set_of(linked, 400).relevance
    rows = partition.select_least_shared(relevance, 100, rng)
    by_chance = rng.permutation(500)[:100]
    assert count_shared_questions(relevance, by_chance, rest_of(relevance, by_chance)) > 90
    assert count_shared_questions(relevance, rows, rest_of(relevance, rows)) < 20


@pytest.mark.parametrize("seed", range(20))
def test_selects_the_requested_count_deterministically(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_questions = int(rng.integers(1, 120))
    n_passages = int(rng.integers(1, 150))
    relevance = set_of(
        (dict.fromkeys(rng.integers(0, n_passages, int(rng.integers(1, 4))).tolist()) for _ in range(n_questions)),
        n_passages,
    ).relevance
    target_count = int(rng.integers(0, n_questions + 1))
    generators = (np.random.default_rng(seed) for _ in range(2))
    first, again = (partition.select_least_shared(relevance, target_count, generator) for generator in generators)
    assert len(np.unique(first)) == len(first) == target_count
    assert np.array_equal(first, again)
    assert not target_count or (first.min() >= 0 and first.max() < n_questions)


def test_counts_shared_questions() -> None:
    relevance = set_of([[0], [0, 1], [2], [1]], 3).relevance
    assert count_shared_questions(relevance, np.array([0, 2, 3]), np.array([1])) == 2
    assert count_shared_questions(relevance, np.array([1]), np.array([], dtype=np.int64)) == 0
    assert count_shared_questions(tangle(10).relevance, np.arange(5), np.arange(5, 10)) == 5


def test_selects_groups_up_to_the_target_count() -> None:
    groups = np.repeat([0, 1, 2, 3], [30, 2, 3, 4])
    assert partition.select_groups(groups, 5, np.array([0, 2, 1, 3])).tolist() == [2, 1]
    assert partition.select_groups(groups, 0, np.array([0, 1, 2, 3])).tolist() == []


def test_grouped_folds_are_unchanged() -> None:
    sample = read_entry(CATALOG["sample"]).question_set
    folds = TrainingQueries.from_question_set(sample, sample.answerable).folds
    assert hashlib.sha256(folds.astype("<i8").tobytes()).hexdigest()[:16] == "c270913098c12ba6"
    assert TrainingQueries.from_question_set(sample, sample.answerable).leaks == 0


def test_folds_of_a_chain_share_few_passages() -> None:
    training_queries = TrainingQueries.from_question_set(chain(323), np.arange(323))
    assert np.bincount(training_queries.folds).tolist() == [64, 64, 65, 65, 65]
    assert 0 < training_queries.leaks <= 2 * (FOLDS - 1)


@pytest.mark.parametrize(
    ("question_set", "sizes", "leaks"),
    [
        (tangle(200), [40] * FOLDS, 200),
        (HANDBOOK, [80] * FOLDS, 0),
        (faq(answers=3, questions_each=50), [0, 0, 50, 50, 50], 0),
    ],
    ids=["a passage of all", "a single article", "few answers"],
)
def test_folds_are_equal_and_share_few_passages(question_set: QuestionSet, sizes: list[int], leaks: int) -> None:
    training_queries = TrainingQueries.from_question_set(question_set, question_set.answerable)
    assert sorted(np.bincount(training_queries.folds, minlength=FOLDS).tolist()) == sizes
    assert training_queries.leaks == leaks


def test_folds_of_a_shuffled_chain_share_few_passages() -> None:
    order = np.random.default_rng(0).permutation(323)
    training_queries = TrainingQueries.from_question_set(set_of(([row, row + 1] for row in order), 324), np.arange(323))
    assert 0 < training_queries.leaks <= 2 * (FOLDS - 1)


def test_folds_are_random_if_these_share_fewer_passages() -> None:
    pairs = "0 0 4 25 25 3 05 0 4 5 23 1 14 5 0 3 03 4 1 5 14 01 12 5"
    question_set = set_of((map(int, digits) for digits in pairs.split()), 6)
    training_queries = TrainingQueries.from_question_set(question_set, np.arange(24))
    assert training_queries.leaks == 22  # folds that grow from one question to the next share 24


def test_folds_cut_a_giant_group() -> None:
    rows = [*([row, row + 1] for row in range(200)), *([201 + row] for row in range(8))]
    training_queries = TrainingQueries.from_question_set(set_of(rows, 209), np.arange(208))
    assert np.bincount(training_queries.folds).max() <= 42
    assert training_queries.leaks <= 2 * (FOLDS - 1)


def test_has_no_folds_without_questions() -> None:
    assert TrainingQueries.from_question_set(chain(5), np.zeros(0, dtype=np.int64)).folds.tolist() == []
