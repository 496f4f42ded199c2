"""Slices against hand-counted sets, against pandas, and against what they promise of any values."""

import math
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.retrieval.analysis.evidence import set_languages
from mrc_workbench.retrieval.analysis.questions import (
    Property,
    Slice,
    most_contested,
    most_telling,
    properties,
    slice_table,
    slice_tests,
    slices,
    terms_found,
)
from mrc_workbench.retrieval.measures import Scores
from mrc_workbench.retrieval.significance import holm, mean_interval, pair_tests, share_intervals
from tests.doubles import QUESTIONS, small_set


def asked_of(questions: Sequence[Question], passages: Sequence[Passage] = (Passage("p", "text"),)) -> QuestionSet:
    return QuestionSet("asked", tuple(passages), tuple(questions))


def of_lengths(lengths: Sequence[int]) -> QuestionSet:
    return asked_of([Question(f"q{row}", "x" * length, (), ("p",)) for row, length in enumerate(lengths)])


def rows_of(parts: Sequence[Slice]) -> dict[str, list[int]]:
    return {part.label: part.rows.tolist() for part in parts}


def test_kinds_and_articles_tell_apart_only_where_there_are_two() -> None:
    numbers = [Property.QUESTION_LENGTH, Property.PASSAGE_LENGTH, Property.OVERLAP, Property.TERMS_FOUND]
    assert properties(small_set()) == [*numbers, Property.ARTICLE]
    kinds = [replace(question, kind="who" if row else "") for row, question in enumerate(QUESTIONS)]
    assert Property.KIND not in properties(replace(small_set(), questions=tuple(kinds)))
    kinds[0] = replace(kinds[0], kind="where")
    assert properties(replace(small_set(), questions=tuple(kinds)))[0] is Property.KIND
    assert properties(of_lengths([1, 2])) == numbers  # no title


def test_kinds_in_the_order_of_their_size_and_no_kind_in_none() -> None:
    kinds = ("b", "a", "", "a", "c", "b")
    questions = [replace(question, kind=kind) for question, kind in zip(QUESTIONS, kinds, strict=True)]
    parts = slices(replace(small_set(), questions=tuple(questions)), Property.KIND)
    assert rows_of(parts) == {"a": [1, 3], "b": [0, 5], "c": [4]}
    assert [part.label for part in parts] == ["a", "b", "c"]
    assert all(math.isnan(part.low) and math.isnan(part.high) for part in parts)


def test_articles_are_titles_of_the_first_relevant_passage() -> None:
    # q5's passage has no title; q6 has two relevant passages, of which 한강 is the first
    assert rows_of(slices(small_set(), Property.ARTICLE)) == {"한강": [1, 5], "서울": [2], "설악산": [3], "세종": [0]}
    assert slices(small_set(), Property.KIND) == []  # a property without values
    assert slices(of_lengths([1, 2]), Property.ARTICLE) == []


def test_ranges_of_eight_lengths_by_hand() -> None:
    parts = slices(of_lengths([80, 10, 20, 30, 40, 50, 60, 70]), Property.QUESTION_LENGTH)
    expected = [(10, 20, [1, 2]), (30, 40, [3, 4]), (50, 60, [5, 6]), (70, 80, [0, 7])]
    assert [(part.low, part.high, part.rows.tolist()) for part in parts] == expected
    parts = slices(of_lengths([1] * 16 + [5, 6, 7, 8]), Property.QUESTION_LENGTH)  # most questions have one value
    assert [(part.low, part.high, len(part.rows)) for part in parts] == [(1, 1, 16), (5, 8, 4)]


@given(st.lists(st.integers(1, 30), min_size=1, max_size=60))
def test_ranges_hold_each_question_once_and_equal_values_together(lengths: list[int]) -> None:
    parts = slices(of_lengths(lengths), Property.QUESTION_LENGTH)
    assert 1 <= len(parts) <= 4
    assert sorted(row for part in parts for row in part.rows.tolist()) == list(range(len(lengths)))
    for part in parts:
        values = [lengths[row] for row in part.rows]
        assert part.rows.tolist() == sorted(part.rows.tolist())
        assert (part.low, part.high) == (min(values), max(values))
    assert all(before.high < after.low for before, after in pairwise(parts))


@given(st.integers(4, 80))
def test_ranges_of_different_values_are_of_one_size(count: int) -> None:
    sizes = [len(part.rows) for part in slices(of_lengths(range(1, count + 1)), Property.QUESTION_LENGTH)]
    assert len(sizes) == 4
    assert max(sizes) - min(sizes) <= 1


def test_a_question_without_a_value_is_in_no_slice() -> None:
    passages = (Passage("p", "ab cd"),)
    texts = ("ab", "?", "xy")  # the second has no two letters in a row
    asked = asked_of([Question(text, text, (), ("p",)) for text in texts], passages)
    parts = slices(asked, Property.OVERLAP)
    assert [(part.low, part.high, part.rows.tolist()) for part in parts] == [(0, 0, [2]), (1, 1, [0])]
    assert slices(asked_of([Question("q", "?", (), ("p",))], passages), Property.OVERLAP) == []


def test_length_of_a_passage_is_that_of_the_first_relevant_one() -> None:
    passages = (Passage("short", "x" * 3), Passage("long", "x" * 9))
    asked = asked_of([Question("a", "a", (), ("long", "short")), Question("b", "b", (), ("short",))], passages)
    assert [(part.low, part.rows.tolist()) for part in slices(asked, Property.PASSAGE_LENGTH)] == [(3, [1]), (9, [0])]


def test_words_found_are_counted_once_in_the_passage_that_holds_most() -> None:
    passages = (Passage("cats", "The cat sat on the mat", "Animals"), Passage("dogs", "A dog sat there"))
    texts = ("cat cat mat?", "Cat, dog and mouse", "animals that sat", "nothing shared")
    relevant = (("cats",), ("dogs",), ("cats",), ("cats",))
    questions = [Question(f"{row}", text, (), ids) for row, (text, ids) in enumerate(zip(texts, relevant, strict=True))]
    both = Question("both", "the dog sat there", (), ("cats", "dogs"))
    found = terms_found(asked_of([*questions, both], passages))
    assert found.tolist() == [2, 1, 2, 0, 3]  # the title counts as the passage's
    # 한글, 만들다, 왕 and 이다 are in the passage, 누구 is not; endings and particles are no words
    assert terms_found(small_set())[0] == 4


def random_case(seed: int = 0) -> tuple[list[Slice], dict[str, Scores], np.ndarray]:
    rng = np.random.default_rng(seed)
    groups = np.sort(rng.integers(0, 30, 90))
    groups = np.unique(groups, return_inverse=True)[1]
    parts = [Slice(np.arange(0, 50), "a"), Slice(np.arange(50, 80), "b"), Slice(np.array([81, 85]), "c")]
    scores = {name: Scores((), {"ndcg@10": rng.random(90)}) for name in ("x", "y", "z")}
    scores["y"].per_question["ndcg@10"][:50] += 0.4
    return parts, scores, groups


def test_figures_are_those_that_pandas_finds() -> None:
    parts, scores, groups = random_case()
    found = slice_table(parts, scores, "ndcg@10", groups)
    values = {name: of.per_question["ndcg@10"] for name, of in scores.items()}
    long = pd.concat(
        pd.DataFrame({"slice": place, "retriever": name, "value": of[part.rows], "first": values["x"][part.rows]})
        for place, part in enumerate(parts)
        for name, of in values.items()
    )
    long["difference"] = long["value"] - long["first"]
    expected = long.groupby(["slice", "retriever"], as_index=False).agg(
        questions=("value", "size"), mean=("value", "mean"), difference=("difference", "mean")
    )
    columns = ["slice", "retriever", "questions", "mean", "difference"]
    pd.testing.assert_frame_equal(found[columns], expected[columns], check_dtype=False)


def test_intervals_of_a_slice_are_those_of_its_questions_alone() -> None:
    parts, scores, groups = random_case()
    found = slice_table(parts, scores, "ndcg@10", groups).set_index(["slice", "retriever"])
    rows = parts[1].rows
    own = np.unique(groups[rows], return_inverse=True)[1]
    x, y = (scores[name].per_question["ndcg@10"][rows] for name in ("x", "y"))
    row = found.loc[(1, "y")]
    np.testing.assert_allclose(row[["low", "high"]].astype(float), share_intervals(y[:, None], own)[0])
    np.testing.assert_allclose(row[["difference_low", "difference_high"]].astype(float), mean_interval(y - x, own))
    assert found.loc[(1, "x"), ["difference", "difference_low", "difference_high"]].tolist() == [0, 0, 0]


def test_a_retriever_without_the_measure_has_no_row() -> None:
    parts, scores, groups = random_case()
    scores["shallow"] = Scores((), {"hit@1": np.ones(90)})
    assert set(slice_table(parts, scores, "ndcg@10", groups)["retriever"]) == {"x", "y", "z"}
    nothing = slice_table(parts, scores, "recall@5", groups)
    assert nothing.empty
    assert len(slice_tests(parts, scores, "recall@5", groups)) == 0
    assert "difference_high" in nothing.columns


def test_differences_are_tested_slice_by_slice_and_corrected_together() -> None:
    parts, scores, groups = random_case()
    found = slice_tests(parts, scores, "ndcg@10", groups)
    table = slice_table(parts, scores, "ndcg@10", groups)
    assert np.isnan(found[table["retriever"] == "x"]).all()
    by_hand = []
    for part in parts:
        own = np.unique(groups[part.rows], return_inverse=True)[1]
        for name in ("y", "z"):
            two = {each: Scores((), {"m": scores[each].per_question["ndcg@10"][part.rows]}) for each in ("x", name)}
            by_hand.append(pair_tests(two, ["m"], own)[0].p)
    # random swaps differ with what is tested together: their p-values have an error of their own
    np.testing.assert_allclose(found[~np.isnan(found)], holm(np.array(by_hand)), atol=0.02)
    assert found[1] < 0.05  # y is ahead on the first slice, by construction
    assert (found[[2, 4, 5, 7, 8]] > 0.05).all()


def test_a_slice_of_one_passage_is_never_sure() -> None:
    values = {"first": [0.0] * 5, "second": [1.0] * 5}
    scores = {name: Scores((), {"ndcg@10": np.array(of)}) for name, of in values.items()}
    parts, groups = [Slice(np.arange(5), "one passage")], np.zeros(5, dtype=np.int32)
    table = slice_table(parts, scores, "ndcg@10", groups)
    assert (table["difference_low"][1], table["difference_high"][1]) == (-1, 1)  # nothing of other passages is known
    assert most_telling(table.assign(p_holm=slice_tests(parts, scores, "ndcg@10", groups))) is None


def figures(**columns: Sequence[float]) -> pd.DataFrame:
    names = {"slice": (0, 0, 1, 1, 2, 2), "questions": (50, 50, 20, 20, 90, 90), "retriever": ("a", "b") * 3}
    return pd.DataFrame({**names, **columns})


def test_most_telling_is_the_largest_difference_that_is_sure() -> None:
    table = figures(
        difference=(0, 0.1, 0, -0.3, 0, 0.05),
        difference_low=(0, 0.05, 0, -0.5, 0, 0.01),
        difference_high=(0, 0.2, 0, -0.1, 0, 0.1),
        p_holm=(np.nan, 0.01, np.nan, 0.2, np.nan, 0.04),
    )
    told = most_telling(table)
    assert told is not None
    assert (told["slice"], told["retriever"], told["difference"]) == (0, "b", 0.1)
    behind = most_telling(table.assign(p_holm=0.01))
    assert behind is not None
    assert behind["difference"] == -0.3
    assert most_telling(table.assign(p_holm=0.06)) is None
    assert most_telling(table.assign(difference_low=-1.0, p_holm=0.01, difference_high=1.0)) is None


def test_most_contested_counts_questions_and_not_shares() -> None:
    # 50 * .1 = 5 questions, 20 * .3 = 6, 90 * .05 = 4.5
    table = figures(difference=(0, 0.1, 0, -0.3, 0, 0.05))
    assert most_contested(table, 2) == [1, 0]
    assert most_contested(table, 9) == [1, 0, 2]
    assert most_contested(table.assign(difference=0.0), 2) == [2, 0]


@pytest.mark.parametrize("by", Property)
def test_every_property_cuts_the_small_set_into_what_it_holds(by: Property) -> None:
    for part in slices(small_set(), by):
        assert len(part.rows)
        assert bool(part.label) == math.isnan(part.low) == math.isnan(part.high)


SENTENCES = tomllib.loads((Path(__file__).parents[2] / "data" / "text" / "sentences.toml").read_text(encoding="utf-8"))


def question_set(passages: list[str], questions: list[str]) -> QuestionSet:
    return QuestionSet(
        "languages",
        tuple(Passage(f"p{row}", text) for row, text in enumerate(passages)),
        tuple(Question(f"q{row}", text, (), ("p0",)) for row, text in enumerate(questions)),
    )


def test_questions_in_another_language_are_counted() -> None:
    korean = "도서관은 어디에 있나요?"
    questions = [SENTENCES["en"][3], korean, SENTENCES["de"][3], "AB-123", korean]
    found = set_languages(question_set(SENTENCES["en"], questions))
    assert (found.language, found.analyzer, found.examined) == ("en", Analyzer.ENGLISH, 5)
    foreign = [(language, rows.tolist()) for language, rows in found.foreign.items()]
    assert foreign == [("ko", [1, 4]), ("de", [2])], "the most frequent first"


def test_without_a_clear_language_or_questions_none_is_foreign() -> None:
    mixed = [" ".join(SENTENCES[language]) for language in ("en", "de", "fr")]
    found = set_languages(question_set(mixed, SENTENCES["ru"]))
    assert (found.language, found.analyzer, found.foreign) == ("", Analyzer.WORD, {})
    found = set_languages(question_set(SENTENCES["fr"], []))
    assert (found.language, found.examined, found.foreign) == ("fr", 0, {})


def test_a_language_that_some_passages_are_in_is_not_foreign() -> None:
    korean = ["도서관은 강 옆에 있다.", "박물관은 아침 아홉 시에 문을 연다.", "표는 입구에서 살 수 있다."]
    found = set_languages(question_set([*korean, SENTENCES["en"][0]], [SENTENCES["en"][3], SENTENCES["de"][3]]))
    assert found.language == "ko"
    assert list(found.foreign) == ["de"]
