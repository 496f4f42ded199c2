"""Questions on ten cities for tests of generation; as a program, the batch that a test kills."""

import sys

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.labs.reading.generate import generate
from mrc_workbench.labs.reading.generator import GenerationRequest, Generator
from mrc_workbench.models.llm import Endpoint
from tests.chat_server import MODEL

CITIES = ("서울", "부산", "대구", "인천", "광주", "대전", "울산", "세종", "수원", "포항")
PASSAGES = [Passage(city, f"{city}의 시장은 {city}역 앞에 있다.", f"{city}시") for city in CITIES]
TEXTS = [f"{city}의 시장은 어디에 있나?" for city in CITIES]
QUESTIONS = [Question(f"q{n}", TEXTS[n], (f"{city}역 앞",), (city,)) for n, city in enumerate(CITIES)]
SET = QuestionSet("도시", PASSAGES, tuple(QUESTIONS))
REQUESTS = [GenerationRequest(item.id, item.text, [PASSAGES[n], PASSAGES[n - 1]]) for n, item in enumerate(QUESTIONS)]
GENERATOR = Generator(name="RAG", model=MODEL, timeout_seconds=5)


def city_of_question(text: str) -> str:
    question = text.rpartition("질문: ")[2]
    return next(city for city in CITIES if question.startswith(city))


def correct_answer(text: str) -> str:
    """Return the right answer; the relevant passage is always the first."""
    return f"{city_of_question(text)}역 앞 [1]"


if __name__ == "__main__":
    generate(GENERATOR, REQUESTS, Endpoint.from_input(), concurrency=int(sys.argv[1]))
