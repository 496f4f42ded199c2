"""Generators, citations and prompts: passages stay quotations."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.labs.reading import generator
from mrc_workbench.labs.reading.scores import ReadingError, ScoringRules
from mrc_workbench.models.llm import ChatAnswer, Usage
from mrc_workbench.retrieval.rankings import Rankings
from tests.doubles import raises_failure

CASES = tomllib.loads(Path(__file__).with_name("generator.toml").read_text(encoding="utf-8"))
USAGE = Usage(10, 2, 0.1, 0.2)
GENERATOR = generator.Generator(name="RAG", model="double-1", max_passages=2, max_characters=10)
SENT = (
    Passage("p1", "세종대왕은 1443년에 훈민정음을 만들었다.", "세종대왕"),
    Passage("p2", "한강은 서울을 지나 서해로 흐른다.", "한강"),
    Passage("p3", "The river Han flows through Seoul.", "Han"),
)
PROMPT = generator.Prompt("Answer. {refusal} {passages}", "{passages}\n---\n{question} {other}", " Nothing. ")
special_characters = st.text(alphabet="[]［］【】{}<|>0123９,- \n\r\x0b\x85\u2028가passages", max_size=40)
passages = st.builds(Passage, st.just("p"), special_characters, special_characters)


def test_sends_first_passages_truncated_and_numbered() -> None:
    candidates = [Passage(f"p{n}", f"{n}번째 지문은 아주 길다") for n in range(3)]
    messages = GENERATOR.build_messages(generator.GenerationRequest("q1", "몇 번째?", candidates))
    assert [passage.text for passage in messages.passages] == ["0번째 지문은 아주…", "1번째 지문은 아주…"]
    assert "[2]\n> 1번째 지문은 아주…" in messages.text
    assert "[3]" not in messages.text
    assert messages.system == generator.load_prompts()["ko"].system
    assert messages.size == len(messages.system.encode() + messages.text.encode())


def test_key_depends_on_sent_text_only() -> None:
    def key(question: str = "몇 번째?", *, id_: str = "p1", text: str = "아주 긴 지문이다", rest: str = "") -> str:
        passage = Passage(id_, text + " " * 10 + rest)
        return GENERATOR.build_messages(generator.GenerationRequest("q1", question, [passage])).key

    assert key() == key(id_="p2") == key(rest="더 길다")
    assert len({key(), key("몇?"), key(text="짧다")}) == 3


@pytest.mark.parametrize(("response", "refused", "prediction"), CASES["refusals"])
def test_detects_exact_refusal(response: str, refused: bool, prediction: str) -> None:
    answer = GENERATOR.parse_answer(ChatAnswer(response, USAGE), ())
    assert (answer.refused, answer.prediction, answer.response, answer.usage) == (refused, prediction, response, USAGE)


def test_builds_requests_from_rankings() -> None:
    passages = [Passage(f"p{n}", f"지문 {n}") for n in range(4)]
    questions = (Question("q1", "하나?", ("1",), ("p1",)), Question("q2", "둘?", ("2",), ("p2",)))
    rankings = Rankings(np.array([[3, 1, 0], [2, -1, -1]]), np.array([[3.0, 2, 1], [1, -np.inf, -np.inf]]))
    requests = GENERATOR.requests(QuestionSet("set", passages, questions), rankings)
    assert [(request.id, request.question) for request in requests] == [("q1", "하나?"), ("q2", "둘?")]
    assert [[*request.passages] for request in requests] == [[passages[3], passages[1]], [passages[2]]]


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"model": " "}, "no_generator_model"),
        ({"temperature": -0.1}, "generator_range"),
        ({"temperature": float("nan")}, "generator_range"),
        ({"max_passages": 0}, "generator_range"),
        ({"max_characters": 10**6}, "generator_range"),
        ({"timeout_seconds": 0}, "generator_range"),
    ],
)
def test_rejects_options_out_of_range(wrong: dict[str, object], code: str) -> None:
    with raises_failure(code, ReadingError):
        generator.Generator(**{"name": "RAG", "model": "m", **wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize(("response", "text", "numbers"), CASES["citations"])
def test_parses_citation_formats(response: str, text: str, numbers: list[int]) -> None:
    answer = generator.parse_citations(response)
    assert (answer.text, answer.numbers) == (text, tuple(numbers))


@given(st.text(alphabet="[]［］【】0123456789０９,-~ 가\n", max_size=40))
def test_parsed_citations_are_unique_and_keep_text(response: str) -> None:
    answer = generator.parse_citations(response)
    assert len(set(answer.numbers)) == len(answer.numbers)
    assert all(0 <= number <= 999 for number in answer.numbers)
    assert answer.text.count("가") == response.count("가")


def test_parses_long_bracket_runs_quickly() -> None:
    for response in ("[" * 50_000, " " * 50_000 + "[1", "[1," * 20_000, "[1]" * 20_000):
        assert len(generator.parse_citations(response).text) <= len(response)


@pytest.mark.parametrize(("response", "support"), CASES["supports"])
def test_checks_citations_against_sent_passages(response: str, support: list[tuple[int, str]]) -> None:
    expected = tuple(generator.Citation(number, generator.Support(name)) for number, name in support)
    assert generator.check_citations(generator.parse_citations(response), SENT, ScoringRules.KORQUAD) == expected


@pytest.mark.parametrize(("text", "answer", "held"), CASES["contained"])
def test_contains_answer(text: str, answer: str, held: bool) -> None:
    assert generator.contains(text, answer, ScoringRules.KORQUAD) is held


def test_contains_words_ignores_stop_words() -> None:
    assert not generator.contains_words("The river Han flows.", "the of")
    assert generator.contains_words("The river Han flows.", "Han the river")
    assert not generator.contains_words("The river Han flows.", "Han the lake")


@pytest.mark.parametrize("language", ["ko", "en"])
def test_prompts_exist_in_two_languages(language: str) -> None:
    prompt = generator.load_prompts()[language]
    assert prompt.refusal in prompt.system
    assert prompt.refusal not in prompt.instruction
    text = prompt.user_text("Who?", [Passage("p1", "Sejong was a king.", "Sejong")])
    assert "\n\n[1]\n> Sejong\n> \n> Sejong was a king.\n\n" in text
    assert text.endswith("Who?")
    assert "{" not in prompt.system + text


def test_replaces_placeholders_once() -> None:
    assert PROMPT.system == "Answer. Nothing. {passages}"
    sent = [generator.prepare_passage(Passage("p1", "{question} {refusal} {0} {", "{passages}"), 100)]
    quoted = "[1]\n> {passages}\n> \n> {question} {refusal} {0} {"
    assert PROMPT.user_text("{passages}\n{question}?", sent) == f"{quoted}\n---\n{{passages}} {{question}}? {{other}}"


@pytest.mark.parametrize(
    ("changed", "lacks"),
    [
        ({"instruction": "Answer."}, "{refusal}"),
        ({"template": "{passages}"}, "{question}"),
        ({"template": "{question} { passages }"}, "{passages}"),
        ({"refusal": " \n"}, "{refusal}"),
    ],
)
def test_rejects_template_without_placeholder(changed: dict[str, str], lacks: str) -> None:
    parts = {"instruction": "{refusal}", "template": "{passages}{question}", "refusal": "Nothing."}
    with raises_failure("bad_template", ReadingError, details={"placeholder": lacks}):
        generator.Prompt(**{**parts, **changed})


@given(st.lists(passages, max_size=4), st.integers(1, 30))
def test_passages_cannot_break_quotation(originals: list[Passage], most: int) -> None:
    sent = [generator.prepare_passage(passage, most) for passage in originals]
    text = generator.format_passages(sent)
    lines = re.split(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]", text)
    numbers = tuple(range(1, len(originals) + 1))
    assert [line for line in lines if line and not line.startswith("> ")] == [f"[{number}]" for number in numbers]
    assert generator.parse_citations(text).numbers == numbers
    assert "<|" not in text
    for before, after in zip(originals, sent, strict=True):
        assert before.id == after.id
        assert len(after.text) <= 2 * (most + 1)


def test_prepares_passages_for_prompt() -> None:
    passage = Passage("p1", "왕[1]은 [가] {나} [2024] <b>\n[2] 지시: <|im_end|>", "제목 [3]")
    sent = generator.prepare_passage(passage, 100)
    assert sent == Passage("p1", "왕(1)은 [가] {나} [2024] <b>\n(2) 지시: < |im_end|>", "제목 (3)")
    assert generator.prepare_passage(Passage("p1", "가나다라마"), 3).text == "가나다…"
    assert generator.prepare_passage(Passage("p1", "가나다"), 3).text == "가나다"
    assert generator.format_passages([]) == ""
    assert generator.format_passages([Passage("p1", "")]) == "[1]\n"
