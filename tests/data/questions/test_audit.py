import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc_workbench.data import questions as module
from mrc_workbench.data.questions import Overlap, OverlapLevel, OverlapUnit, audit, histogram
from mrc_workbench.data.questions.read import QuestionSetReading
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split import PARTS, Part, SplitOptions, parts_table, passage_groups, split, split_table
from mrc_workbench.data.store import find
from tests.doubles import small_set

SET = QuestionSet(
    "set",
    (Passage("a", "서울은 수도이다", "서울"), Passage("b", "부산은 항구다", "부산"), Passage("c", "Seoul 2024")),
    (
        Question("1", "수도는 어디인가?", ("서울",), ("a",), "keyword"),
        Question("2", "서울은?", ("서울", "한양"), ("a", "b"), "keyword"),
        Question("3", "수도는 어디인가?", (), ()),
        Question("4", "SEOUL 2024?", ("2024",), ("c",), "year"),
        Question("5", "왜?", (), ("b",)),
    ),
)


def test_audits_a_small_set() -> None:
    result = audit(SET)
    assert (result.passage_count, result.question_count) == (3, 5)
    assert (result.unanswerable_count, result.article_count, result.passages_without_question) == (1, 2, 0)
    assert result.questions_per_passage.tolist() == [2, 2, 1]
    assert result.passage_lengths.tolist() == [8, 7, 10]
    assert result.question_lengths.tolist() == [9, 4, 9, 11, 2]
    assert result.overlap.mean == pytest.approx((1 / 5 + 1 + 1) / 3)
    assert result.duplicate_questions == {"수도는 어디인가?": ("1", "3")}
    assert result.missing_answer_ids == ("2",)
    assert result.kinds == {"keyword": 2, "year": 1}


def test_audits_a_set_without_answerable_questions() -> None:
    result = audit(QuestionSet("set", SET.passages, (SET.questions[2],)))
    assert len(result.overlap.fractions) == 0
    assert math.isnan(result.overlap.mean)
    assert result.passages_without_question == 3


def labelled(answers: list[str], text: str = "모든 지문은 서로 다르다") -> QuestionSet:
    passages = tuple(Passage(f"p{row}", f"{text} {row}") for row in range(len(answers)))
    questions = tuple(Question(f"q{row}", f"{row}번?", (answer,), (f"p{row}",)) for row, answer in enumerate(answers))
    return QuestionSet("labels", passages, questions)


def test_detects_answers_that_are_labels() -> None:
    assert audit(labelled(["True", "False", "True"] * 10)).labels == ("True", "False")


@pytest.mark.parametrize(
    "question_set",
    [
        labelled(["True", "False"] * 4),  # too few to tell
        labelled([f"답 {row}" for row in range(30)]),  # all different: no labels
        labelled(["지문", "모든"] * 15),  # few, but parts of the passages
        SET,
    ],
)
def test_does_not_report_other_answers_as_labels(question_set: QuestionSet) -> None:
    assert audit(question_set).labels == ()


ENGLISH = QuestionSet(
    "english",
    (Passage("a", "The king made an alphabet."), Passage("b", "A river runs north")),
    (
        Question("1", "Who made the alphabet?", (), ("a",)),
        Question("2", "Where does it run?", (), ("b",)),
        Question("3", "?!", (), ("b",)),
    ),
)


def test_overlap_units_match_hand_computed_values() -> None:
    assert module.bigrams("Ab-c9! 가나다_라") == {"ab", "c9", "가나", "나다"}
    assert module.words("Ab-c9! ab 가나다_라") == {"ab", "c9", "가나다", "라"}
    assert (module.overlap_unit(SET), module.overlap_unit(ENGLISH)) == (OverlapUnit.PAIRS, OverlapUnit.WORDS)


def test_bigram_overlap_matches_hand_computed_values() -> None:
    # 1: 수도, 도는, 어디, 디인, 인가: one of five; 2: 서울, 울은: both in a; 4: equal; 5: no pair of letters
    np.testing.assert_allclose(module.word_overlap(SET), [1 / 5, 1, 1, np.nan])


def test_word_overlap_matches_hand_computed_values() -> None:
    # made, the, alphabet of four; none of where, does, it, run, though all pairs of "run" stand in "runs"; no word
    np.testing.assert_allclose(module.word_overlap(ENGLISH), [3 / 4, 0, np.nan])
    overlap = module.measure_overlap(ENGLISH)
    assert overlap.mean == pytest.approx(3 / 8)


def test_chance_overlap_uses_other_passages() -> None:
    assert module.measure_overlap(ENGLISH).by_chance == 0  # no word of any question stands in the other passage
    single = QuestionSet("one", ENGLISH.passages[:1], ENGLISH.questions[:1])
    assert math.isnan(module.measure_overlap(single).by_chance)


def test_sample_has_little_chance_overlap() -> None:
    overlap = module.measure_overlap(find("sample"))
    assert overlap.unit is OverlapUnit.PAIRS
    assert overlap.by_chance < 0.1 < overlap.mean


def test_histogram_matches_hand_computed_values() -> None:
    table = histogram(np.array([10, 11, 11, 14]))
    assert table.to_numpy().tolist() == [[10, 11, 1], [11, 12, 2], [12, 13, 0], [13, 14, 0], [14, 15, 1]]


def test_histogram_counts_every_value() -> None:
    values = np.random.default_rng(0).integers(3, 2950, 1000)
    table = histogram(values)
    assert len(table) <= 40
    assert set(table["to"] - table["from"]) == {100}
    assert table["count"].sum() == 1000
    for start, end, count in table.to_numpy():
        assert count == ((values >= start) & (values < end)).sum()


def test_histogram_accepts_a_fixed_width() -> None:
    table = histogram(np.array([0.0, 0.049, 0.05, 1.0, np.nan]), 0.05)
    assert len(table) == 20
    assert table["count"].tolist() == [2, 1, *[0] * 16, 0, 1]
    assert math.isclose(table["to"].iloc[-1], 1.0)


@pytest.mark.parametrize(("values", "counts"), [([7], [1]), ([7, 7], [2]), ([0], [1]), ([0.0], [1]), ([np.nan], [])])
def test_histogram_of_equal_values_has_a_single_range(values: list[float], counts: list[int]) -> None:
    assert histogram(np.array(values))["count"].tolist() == counts


def test_classifies_word_overlap() -> None:
    unknown = float("nan")
    known = [(0.67, 0.0), (0.41, 0.0), (0.17, 0.0), (unknown, unknown), (0.65, 0.23), (0.93, 0.9), (0.67, unknown)]
    levels = [module.overlap_level(Overlap(OverlapUnit.PAIRS, np.zeros(30), *means)) for means in known]
    assert levels[:4] == [OverlapLevel.HIGH, OverlapLevel.MIDDLE, OverlapLevel.LOW, OverlapLevel.UNKNOWN]
    # (0.65 - 0.23) / (1 - 0.23) is 0.545
    assert levels[4:] == [OverlapLevel.MIDDLE, OverlapLevel.LOW, OverlapLevel.HIGH]


@pytest.mark.parametrize(
    ("measured", "level"),
    [(1, OverlapLevel.FEW), (29, OverlapLevel.FEW), (30, OverlapLevel.HIGH), (300, OverlapLevel.HIGH)],
)
def test_does_not_classify_overlap_of_few_questions(measured: int, level: OverlapLevel) -> None:
    shares = np.array([0.67] * measured + [np.nan] * 40)  # NaN is ignored
    assert module.overlap_level(Overlap(OverlapUnit.PAIRS, shares, 0.67, 0.0)) is level
    assert module.overlap_level(Overlap(OverlapUnit.PAIRS, shares, float("nan"), 0.0)) is OverlapLevel.UNKNOWN


def test_kinds_table_lists_overlap_by_kind() -> None:
    passages = (Passage("p1", "한글을 만든 왕"),)
    questions = (
        Question("q1", "한글을 만든", (), ("p1",), "same"),
        Question("q2", "문자 제정", (), ("p1",), "other"),
        Question("q3", "한글을 제정", (), ("p1",), "same"),
        Question("q4", "답이 없는 질문", (), (), "none"),
        Question("q5", "유형이 없는 질문", (), ("p1",)),
    )
    question_set = QuestionSet("kinds", passages, questions)
    table = module.kinds_table(question_set, audit(question_set)).set_index("kind")
    # of q1 all of 한글, 글을, 만든; of q3 한글, 글을 but not 제정
    assert table.loc["same"].tolist() == [2, 0.4, pytest.approx((1 + 2 / 3) / 2)]
    assert table.loc["other"].tolist() == [1, 0.2, 0.0]
    assert math.isnan(table.loc["none", "overlap"])


def test_tables_list_the_parts_of_a_split() -> None:
    question_set = small_set()
    question_split = split(question_set)
    table = parts_table(question_split)
    assert table["part"].tolist() == ["train", "validation", "test"]
    assert table["groups"].sum() == question_split.group_counts[Part.ALL]
    assert table["share"].sum() == pytest.approx(1)
    assert table["questions"].sum() == len(question_set.answerable)
    parts = split_table(question_set, question_split)
    assert parts["question_id"].tolist() == [question.id for question in question_set.questions]
    for part in PARTS:
        ids = [question.id for question in question_split.questions(question_set, part).questions]
        assert parts[parts["part"] == part.value]["question_id"].tolist() == ids


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", [0, 1, 2, 3, 4]),
        ("  한강 ", [1, 2]),  # in texts and titles
        ("단풍으로 이름난 산은?", [3]),  # in a question
        ("서울과 한강을 말하는", [1, 2]),  # in a question about two
        ("없는 말", []),
    ],
)
def test_finds_passages_by_text_title_and_question(text: str, rows: list[int]) -> None:
    assert module.find_passage_rows(small_set(), text).tolist() == rows
    assert module.find_passage_rows(SET, "sEOUL").tolist() == [2], "in any case"


def test_lists_questions_by_passage() -> None:
    questions_by_row = module.group_questions_by_passage(small_set(), [2, 0, 4])
    assert {row: [q.id for q in qs] for row, qs in questions_by_row.items()} == {2: ["q3", "q6"], 0: ["q1"], 4: ["q5"]}


@st.composite
def question_sets(draw: st.DrawFn) -> QuestionSet:
    titles = draw(st.lists(st.sampled_from(["", "가", "나", "다", "라"]), min_size=1, max_size=12))
    passages = tuple(Passage(str(row), f"글 {row}", title) for row, title in enumerate(titles))
    ids = st.sampled_from([passage.id for passage in passages])
    relevant = draw(st.lists(st.lists(ids, max_size=2, unique=True), max_size=15))
    questions = [Question(f"q{row}", "?", relevant=tuple(ids)) for row, ids in enumerate(relevant)]
    return QuestionSet("set", passages, tuple(questions))


@pytest.mark.slow
@given(question_sets(), st.integers(0, 5))
@settings(max_examples=150, deadline=None)
def test_splits_by_article_and_covers_every_question(question_set: QuestionSet, seed: int) -> None:
    result = split(question_set, SplitOptions(0.2, 0.3, seed))
    placed = np.concatenate([result.rows[part] for part in PARTS])
    assert sorted(placed) == question_set.answerable.tolist() == result.rows[Part.ALL].tolist()
    articles = [_articles(result.questions(question_set, part)) for part in PARTS]
    assert sum(map(len, articles)) == len(set[str]().union(*articles))
    assert sum(result.group_counts[part] for part in PARTS) == result.group_counts[Part.ALL]


def _articles(question_set: QuestionSet) -> set[str]:
    passages = (question_set.passages[row] for row in np.unique(question_set.relevance.indices).tolist())
    return {passage.title or f"passage {passage.id}" for passage in passages}


def test_merges_groups_that_share_a_question() -> None:
    passages = tuple(Passage(str(row), f"글 {row}", title) for row, title in enumerate(["가", "나", "", "가", ""]))
    questions = (Question("q", "?", relevant=("1", "2")),)
    assert passage_groups(QuestionSet("set", passages, questions)).tolist() == [0, 1, 1, 0, 2]


@pytest.mark.parametrize(("validation", "test"), [(-0.1, 0.2), (0.5, 0.5)])
def test_rejects_fractions_without_training_questions(validation: float, test: float) -> None:
    with pytest.raises(ValueError, match="must each be a fraction of 0 or more"):
        SplitOptions(validation, test)


def test_splits_korquad_by_the_documented_permutation(korquad: QuestionSetReading) -> None:
    result = split(korquad.question_set, SplitOptions(validation=0, test=40 / 140, seed=0))
    counts = {Part.ALL: 5774, Part.TRAIN: 3950, Part.VALIDATION: 0, Part.TEST: 1824}
    assert {part: len(rows) for part, rows in result.rows.items()} == counts
    titles = list(dict.fromkeys(passage.title for passage in korquad.question_set.passages))
    first = {titles[index] for index in np.random.default_rng(0).permutation(140)[:40]}
    assert _articles(result.questions(korquad.question_set, Part.TEST)) == first
