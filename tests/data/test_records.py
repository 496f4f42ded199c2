"""Sets and their columns of passages, their fingerprints, and questions made of passages."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_workbench.data.passages import Passage, Passages, RowOfId
from mrc_workbench.data.records import (
    FILE,
    Maker,
    Question,
    QuestionSet,
    as_trained,
    made_by,
    model_of,
    open_questions,
    without,
    write_questions,
)
from mrc_workbench.data.store import CATALOG, read_entry
from mrc_workbench.data.texts import BLOCK
from tests.doubles import PASSAGES as MANY

PASSAGES = (Passage("a", "서울"), Passage("b", "부산"), Passage("c", "대구"))
QUESTIONS = (
    Question("1", "가?", relevant=("c", "a")),
    Question("2", "나?"),
    Question("3", "다?", ("부산",), ("b",), "keyword"),
)
SET = QuestionSet("set", PASSAGES, QUESTIONS)


def test_relevance_and_a_set_with_fewer_questions() -> None:
    assert SET.relevance.toarray().tolist() == [[True, False, True], [False] * 3, [False, True, False]]
    assert SET.answerable.tolist() == [0, 2]
    assert SET.row_of_passage == {"a": 0, "b": 1, "c": 2}
    part = SET.with_questions(np.array([2, 0]))
    assert [question.id for question in part.questions] == ["3", "1"]
    assert part.corpus_fingerprint == SET.corpus_fingerprint
    assert part.fingerprint != SET.fingerprint


def test_the_fingerprint_is_of_the_content() -> None:
    assert QuestionSet("other", PASSAGES, QUESTIONS).fingerprint == SET.fingerprint
    renamed = (Passage("a", "서울", "수도"), *PASSAGES[1:])
    assert QuestionSet("set", renamed, QUESTIONS).fingerprint != SET.fingerprint
    assert len(SET.fingerprint) == 64


@pytest.mark.parametrize(
    ("passages", "questions", "message"),
    [
        ((*PASSAGES, Passage("a", "강릉")), QUESTIONS, "passage id 'a' occurs twice"),
        ((*PASSAGES, Passage("d", "서울")), QUESTIONS, "passage text '서울' occurs twice"),
        (PASSAGES, (*QUESTIONS, Question("1", "라?")), "question id '1' occurs twice"),
        (PASSAGES, (Question("1", "가?", relevant=("x",)),), r"question '1' names unknown passages \['x'\]"),
    ],
)
def test_what_does_not_hold_is_refused(
    passages: tuple[Passage, ...], questions: tuple[Question, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        QuestionSet("set", passages, questions)


FEW = st.lists(
    st.builds(Passage, st.text(max_size=3), st.text('가"\\\n\x01', max_size=4), st.text(max_size=2)), max_size=6
)


@given(FEW, st.integers(-7, 7), st.integers(-7, 7), st.sampled_from([-1, 1, 2]))
def test_it_is_the_sequence_of_its_passages(passages: list[Passage], start: int, stop: int, step: int) -> None:
    found = Passages.of(passages)
    assert (list(found), len(found), found) == (passages, len(passages), tuple(passages))
    assert found[start:stop:step] == passages[start:stop:step]
    assert [found[row] for row in range(len(passages))] == passages
    assert Passages.of(found) is found


@given(FEW)
def test_the_fingerprint_by_its_formula(passages: list[Passage]) -> None:
    lines = "".join(json.dumps([p.id, p.text, p.title], ensure_ascii=False) + "\n" for p in passages)
    assert Passages.of(passages).fingerprint == hashlib.sha256(lines.encode()).hexdigest()


def test_fingerprints_have_never_changed() -> None:
    asked = of(Question("1", "강은?", ("한강",), ("a",), "what"))
    assert asked.fingerprint == "c1792cd627ab92893ac348de74b6a6fd2866305964e5f9f77e5e1071d6cfde4f"
    sample = read_entry(CATALOG["sample"]).question_set
    assert sample.corpus_fingerprint == "9c655054d83f667e8c02961f73333f9b663d0a768e051198bbef100ac2d06942"
    assert sample.fingerprint == "5ab6feb379263eecc3cb06ee2b78b3e0f6dd13723c7681737b73c8564e0c233b"


def test_equal_are_the_same_passages_in_the_same_order() -> None:
    passages = Passages.of(MANY)
    assert passages == Passages.of(list(MANY))
    assert hash(passages) == hash(Passages.of(list(MANY)))
    assert passages == Passages.of([*MANY, *MANY])[5:]  # whatever pieces the columns are in
    assert passages != MANY[::-1]
    assert passages != MANY[:4]
    assert passages != 5


def test_indexed_texts() -> None:
    passages = Passages.of([Passage("1", "가", "제목"), Passage("2", "나")])
    assert passages.indexed_texts(title=True) == ["제목\n가", "나"]
    assert passages.indexed_texts(title=False) == ["가", "나"]


def test_more_than_a_block() -> None:
    ids = [str(row) for row in range(2 * BLOCK + 1)]
    passages = Passages.of(Passage(id_, f"글 {id_}") for id_ in ids)
    assert list(passages.ids) == ids
    assert passages[BLOCK] == Passage(str(BLOCK), f"글 {BLOCK}")
    assert passages.row_of[ids[-1]] == 2 * BLOCK
    assert passages.repeated == ""


@pytest.mark.parametrize(
    ("passage", "told"), [(Passage("p1", "새 글"), "passage id 'p1'"), (Passage("p9", MANY[3].text), "passage text")]
)
def test_what_is_repeated_is_told(passage: Passage, told: str) -> None:
    assert Passages.of([*MANY, passage]).repeated.startswith(told)


@given(st.lists(st.text("ab", max_size=3), unique=True), st.lists(st.text("ab", max_size=3)))
def test_rows_by_id(ids: list[str], wanted: list[str]) -> None:
    row_of = Passages.of(Passage(id_, str(row)) for row, id_ in enumerate(ids)).row_of
    expected = {id_: row for row, id_ in enumerate(ids)}
    assert row_of == expected
    assert row_of.rows(wanted).tolist() == [expected.get(id_, -1) for id_ in wanted]


def test_ids_with_one_hash_are_told_apart() -> None:
    class SameHashes:
        def __init__(self, ids: list[str]) -> None:
            self.ids = ids

        def hashes(self) -> object:
            return Passages.of(Passage(hashed, "") for hashed in ["b"] * len(self.ids)).ids.hashes()

        def __getitem__(self, row: int) -> str:
            return self.ids[row]

        def at(self, rows: list[int]) -> list[str]:
            return [self.ids[row] for row in rows]

    row_of = RowOfId(SameHashes(["a", "b", "c"]))
    assert row_of["b"] == 1
    assert row_of.rows(["b"]).tolist() == [1]
    assert "d" not in row_of


MADE_OF = (
    Passage("a", "서울은 수도이다. 한강이 흐른다. 산이 많다.", "서울"),
    Passage("b", "부산은 항구이다. 바다가 있다.", "부산"),
    Passage("c", "산이 많다.", "서울"),
)
short = st.text("ab .", min_size=1, max_size=8)


def of(*questions: Question) -> QuestionSet:
    return QuestionSet("set", MADE_OF, questions)


def test_a_hidden_sentence_is_taken_out_of_its_own_passage_only() -> None:
    asked = of(Question("1", "산이 많다.", relevant=("a",), made="sentence", hidden=True))
    trained = as_trained(asked)
    assert list(trained.passages.texts) == ["서울은 수도이다. 한강이 흐른다.", MADE_OF[1].text, MADE_OF[2].text]
    assert list(trained.passages.titles) == ["서울", "부산", "서울"]
    assert list(asked.passages) == list(MADE_OF)
    assert trained.corpus_fingerprint != asked.corpus_fingerprint
    passages = (Passage("a", "같은 글. 다른 글."), Passage("b", "같은 글."))  # they differ by the sentence alone
    made = Question("1", "다른 글.", relevant=("a",), made="sentence", hidden=True)
    assert list(as_trained(QuestionSet("set", passages, (made,))).passages.texts) == ["같은 글.", "같은 글."]


def test_where_a_hidden_title_asks_no_passage_has_one() -> None:
    trained = as_trained(of(Question("1", "서울", relevant=("a", "c"), made="title", hidden=True)))
    assert list(trained.passages.titles) == ["", "", ""]
    assert list(trained.passages.texts) == [passage.text for passage in MADE_OF]
    asked = of(Question("1", "산이 많다.", relevant=("a",), made="sentence"), Question("2", "강은?", relevant=("a",)))
    assert as_trained(asked) is asked


@given(st.text("ab .\n", max_size=60), st.lists(short, max_size=4))
def test_what_was_taken_out_is_gone(text: str, sentences: list[str]) -> None:
    rest = without(text, sentences)
    assert not any(sentence in rest for sentence in sentences if sentence.strip())
    assert len(rest) <= len(text)
    assert without(text, []) == without(text, [" "]) == text


def test_what_a_question_was_made_by() -> None:
    assert [made_by(maker, "x/y") for maker in Maker] == ["title", "sentence", "model: x/y"]
    assert [model_of(made_by(maker, "x/y")) for maker in Maker] == ["", "", "x/y"]


def test_a_made_question_is_other_content_and_counted() -> None:
    asked, made = Question("1", "강은?", relevant=("a",)), Question("1", "강은?", relevant=("a",), made="title")
    assert of(asked).fingerprint != of(made).fingerprint
    assert of(asked).made == {}
    assert of(made, Question("2", "산은?", relevant=("b",), made="title"), Question("3", "왜?")).made == {"title": 2}


GRADED = Question("1", "강은?", relevant=("b", "a"), grades=(("c", 0), ("b", 3), ("a", 1)))


def test_grades_are_kept_relevant_ones_first() -> None:
    assert GRADED.grades == (("b", 3), ("a", 1), ("c", 0))
    assert GRADED.grade_of == {"b": 3, "a": 1, "c": 0}
    assert Question.judged("1", "강은?", {"b": 3, "c": 0, "a": 1}) == GRADED
    assert Question("1", "강은?", relevant=("a",)).grade_of == {"a": 1}


def test_grades_and_groups_that_say_no_more_are_none() -> None:
    plain = Question("1", "강은?", relevant=("a", "b"))
    assert Question.judged("1", "강은?", {"a": 1, "b": 1}) == plain
    assert Question("1", "강은?", relevant=("a",), groups=(("a",),)) == Question("1", "강은?", relevant=("a",))
    assert replace(plain, groups=(("a", "b"),)) != plain, "one of the two is enough"
    assert of(replace(plain, grades=(("a", 1),))).fingerprint == of(plain).fingerprint


def test_from_a_higher_grade_on_groups_and_places_of_answers_are_those_of_what_is_left() -> None:
    passages = tuple(Passage(f"p{row}", str(row)) for row in range(4))
    told = {"answers": ("답",), "starts": (3,), "groups": (("p0", "p1"), ("p2",))}
    graded = Question.judged("q", "?", {"p0": 1, "p1": 2, "p2": 3, "p3": 0}, **told)
    whole = QuestionSet("graded", passages, (graded, Question("plain", "?", relevant=("p0",))))
    assert whole.relevant_from(1) is whole
    (left,) = whole.relevant_from(2).questions
    assert (left.relevant, left.groups, left.starts) == (("p1", "p2"), (("p1",), ("p2",)), ())
    assert left.grade_of == graded.grade_of
    assert whole.relevant_from(4).questions == ()


def test_grades_and_groups_are_content() -> None:
    either, both = (replace(GRADED, groups=groups) for groups in ((("a", "b"),), (("a",), ("b",))))
    plain = replace(GRADED, grades=())
    assert len({of(one).fingerprint for one in (plain, GRADED, either, both)}) == 4


def test_published_part_is_a_known_one_and_changes_the_fingerprint() -> None:
    plain = Question("1", "강은?", relevant=("a",))
    parts = [replace(plain, part=part) for part in ("", "train", "validation", "test")]
    assert len({of(question).fingerprint for question in parts}) == 4
    assert of(parts[0]).fingerprint == of(plain).fingerprint
    assert of(replace(GRADED, part="test")).fingerprint != of(GRADED).fingerprint
    with pytest.raises(ValueError, match="'dev' is not a part"):
        replace(plain, part="dev")


def test_optional_columns_are_stored_if_any_question_has_them(tmp_path: Path) -> None:
    asked = (GRADED, replace(GRADED, id="2", grades=(), groups=(("a",), ("a", "b"))), Question("3", "왜?"))
    write_questions(tmp_path, asked)
    assert open_questions(tmp_path) == asked
    questions = (Question("1", "강은?", relevant=("a",), part="test"), Question("2", "산은?", relevant=("b",)))
    write_questions(tmp_path, questions)
    assert open_questions(tmp_path) == questions
    write_questions(tmp_path, questions[1:])
    assert not {"part", "grades", "groups"} & set(pq.read_schema(tmp_path / FILE).names)
    assert open_questions(tmp_path) == questions[1:]


@pytest.mark.parametrize("told", [{"grades": (("x", 0),)}, {"groups": (("a", "x"), ("b",))}])
def test_grades_and_groups_name_passages_of_the_set(told: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"unknown passages .*x"):
        of(replace(GRADED, **told))


def test_aliases_are_no_content_and_name_a_passage() -> None:
    aliased = replace(SET, aliases={"copy": PASSAGES[0].id})
    assert aliased.fingerprint == SET.fingerprint
    assert aliased.passage_id("copy") == PASSAGES[0].id
    assert aliased.passage_id("unknown") == "unknown"
    assert aliased.with_questions([0]).aliases == {"copy": PASSAGES[0].id}
    with pytest.raises(ValueError, match="an alias is the id of another passage"):
        replace(SET, aliases={PASSAGES[1].id: PASSAGES[0].id})
    with pytest.raises(ValueError, match="an alias names an unknown passage"):
        replace(SET, aliases={"copy": "nowhere"})
