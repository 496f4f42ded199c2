"""Slices against hand-counted sets, pandas, and properties of any values."""

import math
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.retrieval.analysis.evidence import detect_languages
from mrc_workbench.retrieval.analysis.questions import (
    Slice,
    SliceProperty,
    largest_significant_difference,
    matched_terms,
    most_contested_slices,
    properties,
    slice_table,
    slice_tests,
    slices,
)
from mrc_workbench.retrieval.measures import Scores
from mrc_workbench.retrieval.significance import holm, mean_interval, pair_tests, proportion_intervals
from tests.doubles import QUESTIONS, small_set
from tests.retrieval.compared import passages


def dataset_of(questions: Sequence[Question], passages: Sequence[Passage] = (Passage("p", "text"),)) -> QuestionSet:
    return QuestionSet("asked", tuple(passages), tuple(questions))


def of_lengths(lengths: Sequence[int]) -> QuestionSet:
    return dataset_of([Question(f"q{row}", "x" * length, (), ("p",)) for row, length in enumerate(lengths)])


def rows_of(parts: Sequence[Slice]) -> dict[str, list[int]]:
    return {part.label: part.rows.tolist() for part in parts}


def test_offers_kinds_and_articles_only_if_there_are_two() -> None:
    numbers = [by for by in SliceProperty if by not in (SliceProperty.KIND, SliceProperty.ARTICLE)]
    assert properties(small_set()) == [*numbers, SliceProperty.ARTICLE]
    kinds = [replace(question, kind="who" if row else "") for row, question in enumerate(QUESTIONS)]
    assert SliceProperty.KIND not in properties(replace(small_set(), questions=tuple(kinds)))
    kinds[0] = replace(kinds[0], kind="where")
    assert properties(replace(small_set(), questions=tuple(kinds)))[0] is SliceProperty.KIND
    assert properties(of_lengths([1, 2])) == numbers  # no title


def test_sorts_kinds_by_size_and_skips_missing_kind() -> None:
    kinds = ("b", "a", "", "a", "c", "b")
    questions = [replace(question, kind=kind) for question, kind in zip(QUESTIONS, kinds, strict=True)]
    parts = slices(replace(small_set(), questions=tuple(questions)), SliceProperty.KIND)
    assert rows_of(parts) == {"a": [1, 3], "b": [0, 5], "c": [4]}
    assert [part.label for part in parts] == ["a", "b", "c"]
    assert all(math.isnan(part.low) and math.isnan(part.high) for part in parts)


def test_slices_articles_by_first_relevant_title() -> None:
    # q5's passage has no title; q6 has two relevant passages, of which 한강 is the first
    expected = {"한강": [1, 5], "서울": [2], "설악산": [3], "세종": [0]}
    assert rows_of(slices(small_set(), SliceProperty.ARTICLE)) == expected
    assert slices(small_set(), SliceProperty.KIND) == []  # a property without values
    assert slices(of_lengths([1, 2]), SliceProperty.ARTICLE) == []


def test_divides_lengths_into_ranges() -> None:
    parts = slices(of_lengths([80, 10, 20, 30, 40, 50, 60, 70]), SliceProperty.QUESTION_LENGTH)
    expected = [(10, 20, [1, 2]), (30, 40, [3, 4]), (50, 60, [5, 6]), (70, 80, [0, 7])]
    assert [(part.low, part.high, part.rows.tolist()) for part in parts] == expected
    parts = slices(of_lengths([1] * 16 + [5, 6, 7, 8]), SliceProperty.QUESTION_LENGTH)  # most questions have one value
    assert [(part.low, part.high, len(part.rows)) for part in parts] == [(1, 1, 16), (5, 8, 4)]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=60))
def test_ranges_partition_questions_and_keep_equal_values_together(lengths: list[int]) -> None:
    parts = slices(of_lengths(lengths), SliceProperty.QUESTION_LENGTH)
    assert 1 <= len(parts) <= 4
    assert sorted(row for part in parts for row in part.rows.tolist()) == list(range(len(lengths)))
    for part in parts:
        values = [lengths[row] for row in part.rows]
        assert part.rows.tolist() == sorted(part.rows.tolist())
        assert (part.low, part.high) == (min(values), max(values))
    assert all(before.high < after.low for before, after in pairwise(parts))


@given(st.integers(4, 80))
def test_ranges_of_distinct_values_have_equal_size(count: int) -> None:
    sizes = [len(part.rows) for part in slices(of_lengths(range(1, count + 1)), SliceProperty.QUESTION_LENGTH)]
    assert len(sizes) == 4
    assert max(sizes) - min(sizes) <= 1


def test_skips_questions_without_value() -> None:
    passages = (Passage("p", "ab cd"),)
    texts = ("ab", "?", "xy")  # the second has no two letters in a row
    dataset = dataset_of([Question(text, text, (), ("p",)) for text in texts], passages)
    parts = slices(dataset, SliceProperty.OVERLAP)
    assert [(part.low, part.high, part.rows.tolist()) for part in parts] == [(0, 0, [2]), (1, 1, [0])]
    assert slices(dataset_of([Question("q", "?", (), ("p",))], passages), SliceProperty.OVERLAP) == []


def test_uses_length_of_first_relevant_passage() -> None:
    passages = (Passage("short", "x" * 3), Passage("long", "x" * 9))
    dataset = dataset_of([Question("a", "a", (), ("long", "short")), Question("b", "b", (), ("short",))], passages)
    parts = slices(dataset, SliceProperty.PASSAGE_LENGTH)
    assert [(part.low, part.rows.tolist()) for part in parts] == [(3, [1]), (9, [0])]


def test_counts_matched_terms_in_best_passage() -> None:
    passages = (Passage("cats", "The cat sat on the mat", "Animals"), Passage("dogs", "A dog sat there"))
    texts = ("cat cat mat?", "Cat, dog and mouse", "animals that sat", "nothing shared")
    relevant = (("cats",), ("dogs",), ("cats",), ("cats",))
    questions = [Question(f"{row}", text, (), ids) for row, (text, ids) in enumerate(zip(texts, relevant, strict=True))]
    both = Question("both", "the dog sat there", (), ("cats", "dogs"))
    counts = matched_terms(dataset_of([*questions, both], passages))
    assert counts.tolist() == [2, 1, 2, 0, 3]  # the title counts as the passage's
    # 한글, 만들다, 왕 and 이다 are in the passage, 누구 is not; endings and particles are no words
    assert matched_terms(small_set())[0] == 4


def random_case(seed: int = 0) -> tuple[list[Slice], dict[str, Scores], np.ndarray]:
    rng = np.random.default_rng(seed)
    groups = np.sort(rng.integers(0, 30, 90))
    groups = np.unique(groups, return_inverse=True)[1]
    parts = [Slice(np.arange(0, 50), "a"), Slice(np.arange(50, 80), "b"), Slice(np.array([81, 85]), "c")]
    scores = {name: Scores((), {"ndcg@10": rng.random(90)}) for name in ("x", "y", "z")}
    scores["y"].per_question["ndcg@10"][:50] += 0.4
    return parts, scores, groups


def test_slice_table_matches_pandas() -> None:
    parts, scores, groups = random_case()
    table = slice_table(parts, scores, "ndcg@10", groups)
    values = {name: of.per_question["ndcg@10"] for name, of in scores.items()}
    long = pd.concat(
        pd.DataFrame({"slice": index, "retriever": name, "value": of[part.rows], "first": values["x"][part.rows]})
        for index, part in enumerate(parts)
        for name, of in values.items()
    )
    long["difference"] = long["value"] - long["first"]
    expected = long.groupby(["slice", "retriever"], as_index=False).agg(
        questions=("value", "size"), mean=("value", "mean"), difference=("difference", "mean")
    )
    columns = ["slice", "retriever", "questions", "mean", "difference"]
    pd.testing.assert_frame_equal(table[columns], expected[columns], check_dtype=False)


def test_slice_intervals_use_only_its_questions() -> None:
    parts, scores, groups = random_case()
    table = slice_table(parts, scores, "ndcg@10", groups).set_index(["slice", "retriever"])
    rows = parts[1].rows
    own = np.unique(groups[rows], return_inverse=True)[1]
    x, y = (scores[name].per_question["ndcg@10"][rows] for name in ("x", "y"))
    row = table.loc[(1, "y")]
    np.testing.assert_allclose(row[["low", "high"]].astype(float), proportion_intervals(y[:, None], own)[0])
    np.testing.assert_allclose(row[["difference_low", "difference_high"]].astype(float), mean_interval(y - x, own))
    assert table.loc[(1, "x"), ["difference", "difference_low", "difference_high"]].tolist() == [0, 0, 0]


def test_omits_retrievers_without_measure() -> None:
    parts, scores, groups = random_case()
    scores["shallow"] = Scores((), {"hit@1": np.ones(90)})
    assert set(slice_table(parts, scores, "ndcg@10", groups)["retriever"]) == {"x", "y", "z"}
    nothing = slice_table(parts, scores, "recall@5", groups)
    assert nothing.empty
    assert len(slice_tests(parts, scores, "recall@5", groups)) == 0
    assert "difference_high" in nothing.columns


def test_corrects_slice_tests_together() -> None:
    parts, scores, groups = random_case()
    p_values = slice_tests(parts, scores, "ndcg@10", groups)
    table = slice_table(parts, scores, "ndcg@10", groups)
    assert np.isnan(p_values[table["retriever"] == "x"]).all()
    by_hand = []
    for part in parts:
        own = np.unique(groups[part.rows], return_inverse=True)[1]
        for name in ("y", "z"):
            two = {each: Scores((), {"m": scores[each].per_question["ndcg@10"][part.rows]}) for each in ("x", name)}
            by_hand.append(pair_tests(two, ["m"], own)[0].p)
    # random swaps depend on the tested pairs, so p-values have a sampling error
    np.testing.assert_allclose(p_values[~np.isnan(p_values)], holm(np.array(by_hand)), atol=0.02)
    assert p_values[1] < 0.05  # y is ahead on the first slice, by construction
    assert (p_values[[2, 4, 5, 7, 8]] > 0.05).all()


def test_single_passage_slice_is_never_significant() -> None:
    values = {"first": [0.0] * 5, "second": [1.0] * 5}
    scores = {name: Scores((), {"ndcg@10": np.array(of)}) for name, of in values.items()}
    parts = [Slice(np.arange(5), "one passage")]
    groups = np.zeros(5, dtype=np.int32)
    table = slice_table(parts, scores, "ndcg@10", groups)
    assert (table["difference_low"][1], table["difference_high"][1]) == (-1, 1)  # no data about other passages
    assert largest_significant_difference(table.assign(p_holm=slice_tests(parts, scores, "ndcg@10", groups))) is None


def slice_rows(**columns: Sequence[float]) -> pd.DataFrame:
    names = {"slice": (0, 0, 1, 1, 2, 2), "questions": (50, 50, 20, 20, 90, 90), "retriever": ("a", "b") * 3}
    return pd.DataFrame({**names, **columns})


def test_selects_largest_significant_difference() -> None:
    table = slice_rows(
        difference=(0, 0.1, 0, -0.3, 0, 0.05),
        difference_low=(0, 0.05, 0, -0.5, 0, 0.01),
        difference_high=(0, 0.2, 0, -0.1, 0, 0.1),
        p_holm=(np.nan, 0.01, np.nan, 0.2, np.nan, 0.04),
    )
    row = largest_significant_difference(table)
    assert row is not None
    assert (row["slice"], row["retriever"], row["difference"]) == (0, "b", 0.1)
    behind = largest_significant_difference(table.assign(p_holm=0.01))
    assert behind is not None
    assert behind["difference"] == -0.3
    assert largest_significant_difference(table.assign(p_holm=0.06)) is None
    assert largest_significant_difference(table.assign(difference_low=-1.0, p_holm=0.01, difference_high=1.0)) is None


def test_ranks_contested_slices_by_question_count() -> None:
    # 50 * .1 = 5 questions, 20 * .3 = 6, 90 * .05 = 4.5
    table = slice_rows(difference=(0, 0.1, 0, -0.3, 0, 0.05))
    assert most_contested_slices(table, 2) == [1, 0]
    assert most_contested_slices(table, 9) == [1, 0, 2]
    assert most_contested_slices(table.assign(difference=0.0), 2) == [2, 0]


SENTENCES = tomllib.loads((Path(__file__).parents[2] / "data" / "text" / "sentences.toml").read_text(encoding="utf-8"))


def question_set(texts: list[str], questions: list[str]) -> QuestionSet:
    labelled = [Question(f"q{row}", text, (), ("p0",)) for row, text in enumerate(questions)]
    return dataset_of(labelled, passages(*texts))


def test_counts_questions_in_foreign_language() -> None:
    korean = "도서관은 어디에 있나요?"
    questions = [SENTENCES["en"][3], korean, SENTENCES["de"][3], "AB-123", korean]
    languages = detect_languages(question_set(SENTENCES["en"], questions))
    assert (languages.language, languages.analyzer, languages.examined) == ("en", Analyzer.ENGLISH, 5)
    foreign = [(language, rows.tolist()) for language, rows in languages.foreign.items()]
    assert foreign == [("ko", [1, 4]), ("de", [2])], "the most frequent first"


def test_finds_no_foreign_questions_without_clear_language() -> None:
    mixed = [" ".join(SENTENCES[language]) for language in ("en", "de", "fr")]
    languages = detect_languages(question_set(mixed, SENTENCES["ru"]))
    assert (languages.language, languages.analyzer, languages.foreign) == ("", Analyzer.WORD, {})
    languages = detect_languages(question_set(SENTENCES["fr"], []))
    assert (languages.language, languages.examined, languages.foreign) == ("fr", 0, {})


def test_language_of_some_passages_is_not_foreign() -> None:
    korean = ["도서관은 강 옆에 있다.", "박물관은 아침 아홉 시에 문을 연다.", "표는 입구에서 살 수 있다."]
    languages = detect_languages(question_set([*korean, SENTENCES["en"][0]], [SENTENCES["en"][3], SENTENCES["de"][3]]))
    assert languages.language == "ko"
    assert list(languages.foreign) == ["de"]
