"""Tests of question sets: columns of passages, fingerprints, and synthetic questions."""

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

from mrc_workbench.data import records
from mrc_workbench.data.passages import Passage, Passages, RowOfId
from mrc_workbench.data.records import Question, QuestionSet, remove_sentences, strip_hidden_text
from mrc_workbench.data.store import CATALOG, read_entry
from mrc_workbench.data.texts import BLOCK
from tests.doubles import PASSAGES as MANY

PASSAGES = (Passage("a", "서울"), Passage("b", "부산"), Passage("c", "대구"))
ANSWERED = Question("3", "다?", ("부산",), ("b",), "keyword")
QUESTIONS = (Question("1", "가?", relevant=("c", "a")), Question("2", "나?"), ANSWERED)
SET = QuestionSet("set", PASSAGES, QUESTIONS)


def test_relevance_of_a_subset_of_questions() -> None:
    assert SET.relevance.toarray().tolist() == [[True, False, True], [False] * 3, [False, True, False]]
    assert SET.answerable.tolist() == [0, 2]
    assert SET.row_of_passage == {"a": 0, "b": 1, "c": 2}
    part = SET.with_questions(np.array([2, 0]))
    assert [question.id for question in part.questions] == ["3", "1"]
    assert part.corpus_fingerprint == SET.corpus_fingerprint
    assert part.fingerprint != SET.fingerprint


def test_fingerprint_depends_on_content_only() -> None:
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
def test_rejects_inconsistent_set(passages: tuple[Passage, ...], questions: tuple[Question, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        QuestionSet("set", passages, questions)


ANY_PASSAGE = st.builds(Passage, st.text(max_size=3), st.text('가"\\\n\x01', max_size=4), st.text(max_size=2))
FEW = st.lists(ANY_PASSAGE, max_size=6)


@given(FEW, st.integers(-7, 7), st.integers(-7, 7), st.sampled_from([-1, 1, 2]))
def test_passages_are_a_sequence(passages: list[Passage], start: int, stop: int, step: int) -> None:
    sequence = Passages.from_passages(passages)
    assert (list(sequence), len(sequence), sequence) == (passages, len(passages), tuple(passages))
    assert sequence[start:stop:step] == passages[start:stop:step]
    assert [sequence[row] for row in range(len(passages))] == passages
    assert Passages.from_passages(sequence) is sequence


@given(FEW)
def test_fingerprint_follows_its_formula(passages: list[Passage]) -> None:
    lines = "".join(json.dumps([p.id, p.text, p.title], ensure_ascii=False) + "\n" for p in passages)
    assert Passages.from_passages(passages).fingerprint == hashlib.sha256(lines.encode()).hexdigest()


def test_fingerprints_are_stable() -> None:
    question_set = question_set_of(Question("1", "강은?", ("한강",), ("a",), "what"))
    assert question_set.fingerprint == "c1792cd627ab92893ac348de74b6a6fd2866305964e5f9f77e5e1071d6cfde4f"
    sample = read_entry(CATALOG["sample"]).question_set
    assert sample.corpus_fingerprint == "9c655054d83f667e8c02961f73333f9b663d0a768e051198bbef100ac2d06942"
    assert sample.fingerprint == "5ab6feb379263eecc3cb06ee2b78b3e0f6dd13723c7681737b73c8564e0c233b"


def test_passages_are_equal_if_content_and_order_are() -> None:
    passages = Passages.from_passages(MANY)
    assert passages == Passages.from_passages(list(MANY))
    assert hash(passages) == hash(Passages.from_passages(list(MANY)))
    assert passages == Passages.from_passages([*MANY, *MANY])[5:]  # independent of the chunks of the columns
    assert passages != MANY[::-1]
    assert passages != MANY[:4]
    assert passages != 5


def test_handles_more_passages_than_a_block() -> None:
    ids = [str(row) for row in range(2 * BLOCK + 1)]
    passages = Passages.from_passages(Passage(id_, f"글 {id_}") for id_ in ids)
    assert list(passages.ids) == ids
    assert passages[BLOCK] == Passage(str(BLOCK), f"글 {BLOCK}")
    assert passages.row_of[ids[-1]] == 2 * BLOCK
    assert passages.duplicate == ""


@given(st.lists(st.text("ab", max_size=3), unique=True), st.lists(st.text("ab", max_size=3)))
def test_finds_rows_by_id(ids: list[str], queried_ids: list[str]) -> None:
    row_of = Passages.from_passages(Passage(id_, str(row)) for row, id_ in enumerate(ids)).row_of
    expected = {id_: row for row, id_ in enumerate(ids)}
    assert row_of == expected
    assert row_of.rows(queried_ids).tolist() == [expected.get(id_, -1) for id_ in queried_ids]


def test_distinguishes_ids_with_the_same_hash() -> None:
    class SameHashes:
        def __init__(self, ids: list[str]) -> None:
            self.ids = ids

        def hashes(self) -> object:
            return Passages.from_passages(Passage(hashed, "") for hashed in ["b"] * len(self.ids)).ids.hashes()

        def __getitem__(self, row: int) -> str:
            return self.ids[row]

        def at(self, rows: list[int]) -> list[str]:
            return [self.ids[row] for row in rows]

    row_of = RowOfId(SameHashes(["a", "b", "c"]))
    assert row_of["b"] == 1
    assert row_of.rows(["b"]).tolist() == [1]
    assert "d" not in row_of


SOURCE_PASSAGES = (
    Passage("a", "서울은 수도이다. 한강이 흐른다. 산이 많다.", "서울"),
    Passage("b", "부산은 항구이다. 바다가 있다.", "부산"),
    Passage("c", "산이 많다.", "서울"),
)
short = st.text("ab .", min_size=1, max_size=8)


def question_set_of(*questions: Question) -> QuestionSet:
    return QuestionSet("set", SOURCE_PASSAGES, questions)


def test_removes_hidden_sentence_from_its_own_passage_only() -> None:
    question_set = question_set_of(Question("1", "산이 많다.", relevant=("a",), generator="sentence", hidden=True))
    trained = strip_hidden_text(question_set)
    texts = ["서울은 수도이다. 한강이 흐른다.", SOURCE_PASSAGES[1].text, SOURCE_PASSAGES[2].text]
    assert list(trained.passages.texts) == texts
    assert list(trained.passages.titles) == ["서울", "부산", "서울"]
    assert list(question_set.passages) == list(SOURCE_PASSAGES)
    assert trained.corpus_fingerprint != question_set.corpus_fingerprint
    passages = (Passage("a", "같은 글. 다른 글."), Passage("b", "같은 글."))  # they differ only in the sentence
    generated = Question("1", "다른 글.", relevant=("a",), generator="sentence", hidden=True)
    trained = strip_hidden_text(QuestionSet("set", passages, (generated,)))
    assert list(trained.passages.texts) == ["같은 글.", "같은 글."]


def test_removes_all_titles_if_a_hidden_title_is_a_question() -> None:
    question = Question("1", "서울", relevant=("a", "c"), generator="title", hidden=True)
    trained = strip_hidden_text(question_set_of(question))
    assert list(trained.passages.titles) == ["", "", ""]
    assert list(trained.passages.texts) == [passage.text for passage in SOURCE_PASSAGES]
    question_set = question_set_of(
        Question("1", "산이 많다.", relevant=("a",), generator="sentence"), Question("2", "강은?", relevant=("a",))
    )
    assert strip_hidden_text(question_set) is question_set


@given(st.text("ab .\n", max_size=60), st.lists(short, max_size=4))
def test_removed_sentences_are_gone(text: str, sentences: list[str]) -> None:
    rest = remove_sentences(text, sentences)
    assert not any(sentence in rest for sentence in sentences if sentence.strip())
    assert len(rest) <= len(text)
    assert remove_sentences(text, []) == remove_sentences(text, [" "]) == text


def test_generator_label_round_trips() -> None:
    labels = [records.generator_label(generator, "x/y") for generator in records.QuestionGenerator]
    assert labels == ["title", "sentence", "model: x/y"]
    assert [*map(records.generator_model, labels)] == ["", "", "x/y"]


def test_generated_question_changes_the_fingerprint_and_is_counted() -> None:
    written = Question("1", "강은?", relevant=("a",))
    generated = Question("1", "강은?", relevant=("a",), generator="title")
    assert question_set_of(written).fingerprint != question_set_of(generated).fingerprint
    assert question_set_of(written).generated_counts == {}
    assert question_set_of(
        generated, Question("2", "산은?", relevant=("b",), generator="title"), Question("3", "왜?")
    ).generated_counts == {"title": 2}


GRADED = Question("1", "강은?", relevant=("b", "a"), grades=(("c", 0), ("b", 3), ("a", 1)))


def test_stores_relevant_grades_first() -> None:
    assert GRADED.grades == (("b", 3), ("a", 1), ("c", 0))
    assert GRADED.grade_of == {"b": 3, "a": 1, "c": 0}
    assert Question.from_grades("1", "강은?", {"b": 3, "c": 0, "a": 1}) == GRADED
    assert Question("1", "강은?", relevant=("a",)).grade_of == {"a": 1}


def test_drops_redundant_grades_and_groups() -> None:
    plain = Question("1", "강은?", relevant=("a", "b"))
    assert Question.from_grades("1", "강은?", {"a": 1, "b": 1}) == plain
    assert Question("1", "강은?", relevant=("a",), groups=(("a",),)) == Question("1", "강은?", relevant=("a",))
    assert replace(plain, groups=(("a", "b"),)) != plain, "one of the two is enough"
    assert question_set_of(replace(plain, grades=(("a", 1),))).fingerprint == question_set_of(plain).fingerprint


def test_minimum_grade_filters_groups_and_answer_starts() -> None:
    passages = tuple(Passage(f"p{row}", str(row)) for row in range(4))
    fields = {"answers": ("답",), "starts": (3,), "groups": (("p0", "p1"), ("p2",))}
    graded = Question.from_grades("q", "?", {"p0": 1, "p1": 2, "p2": 3, "p3": 0}, **fields)
    whole = QuestionSet("graded", passages, (graded, Question("plain", "?", relevant=("p0",))))
    assert whole.relevant_from(1) is whole
    (left,) = whole.relevant_from(2).questions
    assert (left.relevant, left.groups, left.starts) == (("p1", "p2"), (("p1",), ("p2",)), ())
    assert left.grade_of == graded.grade_of
    assert whole.relevant_from(4).questions == ()


def test_grades_and_groups_change_the_fingerprint() -> None:
    either, both = (replace(GRADED, groups=groups) for groups in ((("a", "b"),), (("a",), ("b",))))
    plain = replace(GRADED, grades=())
    assert len({question_set_of(question).fingerprint for question in (plain, GRADED, either, both)}) == 4


def test_rejects_unknown_part_and_part_changes_the_fingerprint() -> None:
    plain = Question("1", "강은?", relevant=("a",))
    parts = [replace(plain, part=part) for part in ("", "train", "validation", "test")]
    assert len({question_set_of(question).fingerprint for question in parts}) == 4
    assert question_set_of(parts[0]).fingerprint == question_set_of(plain).fingerprint
    assert question_set_of(replace(GRADED, part="test")).fingerprint != question_set_of(GRADED).fingerprint
    with pytest.raises(ValueError, match="'dev' is not a part"):
        replace(plain, part="dev")


def test_stores_optional_columns_only_if_used(tmp_path: Path) -> None:
    with_optional = (GRADED, replace(GRADED, id="2", grades=(), groups=(("a",), ("a", "b"))), Question("3", "왜?"))
    records.write_questions(tmp_path, with_optional)
    assert records.open_questions(tmp_path) == with_optional
    questions = (Question("1", "강은?", relevant=("a",), part="test"), Question("2", "산은?", relevant=("b",)))
    records.write_questions(tmp_path, questions)
    assert records.open_questions(tmp_path) == questions
    records.write_questions(tmp_path, questions[1:])
    assert not {"part", "grades", "groups"} & set(pq.read_schema(tmp_path / records.FILE).names)
    assert records.open_questions(tmp_path) == questions[1:]


@pytest.mark.parametrize("fields", [{"grades": (("x", 0),)}, {"groups": (("a", "x"), ("b",))}])
def test_rejects_grades_and_groups_of_unknown_passages(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"unknown passages .*x"):
        question_set_of(replace(GRADED, **fields))


def test_aliases_do_not_change_the_fingerprint_and_name_a_passage() -> None:
    aliased = replace(SET, aliases={"copy": PASSAGES[0].id})
    assert aliased.fingerprint == SET.fingerprint
    assert aliased.passage_id("copy") == PASSAGES[0].id
    assert aliased.passage_id("unknown") == "unknown"
    assert aliased.with_questions([0]).aliases == {"copy": PASSAGES[0].id}
    with pytest.raises(ValueError, match="an alias is the id of another passage"):
        replace(SET, aliases={PASSAGES[1].id: PASSAGES[0].id})
    with pytest.raises(ValueError, match="an alias names an unknown passage"):
        replace(SET, aliases={"copy": "nowhere"})
