import numpy as np
import pytest

from chat.endpoint import Answer, Usage
from data.records import Passage, Question, QuestionSet
from reading.generate.generator import Generator, Request, prompts
from reading.judge.rules import ReadingError
from retrieval.rankings import Rankings

USAGE = Usage(10, 2, 0.1, 0.2)
GENERATOR = Generator(name="RAG", model="double-1", most_passages=2, most_characters=10)


def test_the_first_passages_are_sent_cut_and_numbered() -> None:
    found = [Passage(f"p{n}", f"{n}번째 지문은 아주 길다") for n in range(3)]
    messages = GENERATOR.messages(Request("q1", "몇 번째?", found))
    assert [passage.text for passage in messages.sent] == ["0번째 지문은 아주…", "1번째 지문은 아주…"]
    assert "[2]\n> 1번째 지문은 아주…" in messages.text
    assert "[3]" not in messages.text
    assert messages.system == prompts()["ko"].system
    assert messages.size == len(messages.system.encode() + messages.text.encode())


def test_what_is_read_is_the_key_and_neither_ids_nor_what_was_cut_away() -> None:
    def key(question: str = "몇 번째?", *, id_: str = "p1", text: str = "아주 긴 지문이다", rest: str = "") -> str:
        return GENERATOR.messages(Request("q1", question, [Passage(id_, text + " " * 10 + rest)])).key

    assert key() == key(id_="p2") == key(rest="더 길다")
    assert len({key(), key("몇?"), key(text="짧다")}) == 3


@pytest.mark.parametrize(
    ("said", "refused", "prediction"),
    [
        ("세종대왕 [1]", False, "세종대왕"),
        ("지문에서 답을 찾을 수 없습니다.", True, ""),
        ("지문에서 답을 찾을 수 없습니다 [1]", True, ""),
        ("**지문에서 답을 찾을 수 없습니다.**", True, ""),
        ("<think>세종?</think>지문에서 답을 찾을 수 없습니다.", True, ""),
        ("지문에서 답을 찾을 수 없습니다. 세종대왕 [1]", False, "지문에서 답을 찾을 수 없습니다. 세종대왕"),
    ],
)
def test_a_refusal_is_the_sentence_and_no_more(said: str, refused: bool, prediction: str) -> None:
    answer = GENERATOR.answer(Answer(said, USAGE), ())
    assert (answer.refused, answer.prediction, answer.said, answer.usage) == (refused, prediction, said, USAGE)


def test_requests_are_a_sets_questions_with_what_was_found_for_each() -> None:
    passages = [Passage(f"p{n}", f"지문 {n}") for n in range(4)]
    questions = (Question("q1", "하나?", ("1",), ("p1",)), Question("q2", "둘?", ("2",), ("p2",)))
    rankings = Rankings(np.array([[3, 1, 0], [2, -1, -1]]), np.array([[3.0, 2, 1], [1, -np.inf, -np.inf]]))
    found = GENERATOR.requests(QuestionSet("set", passages, questions), rankings)
    assert [(one.id, one.question, [*one.passages]) for one in found] == [
        ("q1", "하나?", [passages[3], passages[1]]),
        ("q2", "둘?", [passages[2]]),
    ]


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"model": " "}, "no_generator_model"),
        ({"temperature": -0.1}, "generator_range"),
        ({"temperature": float("nan")}, "generator_range"),
        ({"most_passages": 0}, "generator_range"),
        ({"most_characters": 10**6}, "generator_range"),
        ({"timeout_seconds": 0}, "generator_range"),
    ],
)
def test_options_out_of_range(wrong: dict[str, object], code: str) -> None:
    with pytest.raises(ReadingError) as caught:
        Generator(**{"name": "RAG", "model": "m", **wrong})  # type: ignore[arg-type]
    assert caught.value.code == code
