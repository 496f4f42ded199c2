import json
from collections.abc import Sequence
from typing import Any

import pytest

from mrc_workbench.data.problems import DataError
from mrc_workbench.data.questions.read import Reading, read
from mrc_workbench.data.records import QuestionSet

QUESTIONS = ("Where do cranes spend the winter?", "What do otters catch in rivers?")
TEXTS = ("Cranes spend the winter in the fields of Cheorwon.", "Otters catch fish in clear rivers.")
ROWS = (0, 1)


def _read(rows: Sequence[Any]) -> Reading:
    lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    return read(lines.encode(), "rows.jsonl")


def _relevant_texts(found: QuestionSet) -> dict[str, list[str]]:
    text_of = {passage.id: passage.text for passage in found.passages}
    return {question.text: [text_of[id_] for id_ in question.relevant] for question in found.questions}


EXPECTED = {question: [text] for question, text in zip(QUESTIONS, TEXTS, strict=True)}


@pytest.mark.parametrize(
    "rows",
    [
        [{"question": {"text": QUESTIONS[row], "lang": "en"}, "passage": {"text": TEXTS[row]}} for row in ROWS],
        [{"input": {"question": QUESTIONS[row]}, "expected": {"context": TEXTS[row], "score": 1}} for row in ROWS],
        [{"id": row, "fields": {"query": QUESTIONS[row], "document": TEXTS[row]}, "responses": {}} for row in ROWS],
        [{"vars": json.dumps({"query": QUESTIONS[row]}), "context": TEXTS[row]} for row in ROWS],
    ],
)
def test_reads_the_keys_of_objects_as_columns(rows: Sequence[Any]) -> None:
    assert _relevant_texts(_read(rows).question_set) == EXPECTED


def test_names_the_flag_for_answers_in_objects() -> None:
    rows = [{"input": {"question": text}, "expectedOutput": {"answer": "fish"}} for text in QUESTIONS]
    with pytest.raises(DataError, match="--columns context=answer"):
        _read(rows)


def test_keeps_metadata_as_one_column() -> None:
    rows = [{"question": QUESTIONS[row], "context": TEXTS[row], "metadata": {"query": "x"}} for row in ROWS]
    assert "metadata" in _read(rows).unused_columns


@pytest.mark.parametrize("name", ["abstract", "text", "contents"])
def test_a_list_of_sentences_is_one_passage(name: str) -> None:
    rows = [{"doc_id": 7 + row, "title": f"Title {row}", name: [TEXTS[row], "They rest."]} for row in ROWS]
    passages = _read(rows).question_set.passages
    assert [(one.id, one.title, one.text) for one in passages] == [
        (str(7 + row), f"Title {row}", f"{TEXTS[row]} They rest.") for row in ROWS
    ]


def test_contexts_without_a_question_stay_passages_of_their_own() -> None:
    assert len(_read([{"contexts": [*TEXTS]}, {"contexts": [TEXTS[0]]}]).question_set.passages) == 2


def test_a_pair_without_sentences_is_no_passage() -> None:
    rows = [
        {
            "question": QUESTIONS[0],
            "context": [["Crane", [TEXTS[0]]], ["Otter", []]],
            "supporting_facts": [["Crane", 0]],
        }
    ]
    assert [one.text for one in _read([*rows, *rows]).question_set.passages] == [TEXTS[0]]
