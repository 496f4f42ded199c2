"""A generator: a language model, what it is told, and how much of what was retrieved it reads."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from chat.endpoint import TIMEOUT_SECONDS, Answer, Chat, Endpoint, Usage
from data.cache import key_of
from data.records import Passage, QuestionSet
from reading.generation.citations import CitedAnswer, cited
from reading.generation.prompts import Prompt, as_sent, prompts
from reading.judge.rules import ReadingError, Rules, normalized
from retrieval.rankings import NOT_FOUND, Rankings

_RANGES = {
    "temperature": (0, 2),
    "most_passages": (1, 100),
    "most_characters": (1, 100_000),
    "timeout_seconds": (0.01, 3600),
}


@dataclass(frozen=True)
class Request:
    """A question and the passages that were found for it, the best first."""

    id: str
    question: str
    passages: Sequence[Passage]


@dataclass(frozen=True)
class Messages:
    """What is sent of a request: the system's and the user's text, and the passages in it as they are read there."""

    system: str
    text: str
    sent: tuple[Passage, ...]

    @cached_property
    def key(self) -> str:
        """sha256 (hexadecimal) of all that the model reads."""
        return key_of(self.system, self.text)

    @property
    def size(self) -> int:
        """Bytes of all that the model reads, in UTF-8."""
        return len(self.system.encode()) + len(self.text.encode())


@dataclass(frozen=True)
class GeneratedAnswer:
    """What a model said, what that took, the passages it was sent as `[1]` and so on, and whether it refused."""

    said: str
    usage: Usage
    sent: tuple[Passage, ...]
    refused: bool

    @cached_property
    def cited(self) -> CitedAnswer:
        """The answer without its citations, and these."""
        return cited(self.said)

    @property
    def prediction(self) -> str:
        """The answer as `reading.rules` judge it: without citations, and empty, "no answer", where it is a refusal."""
        return "" if self.refused else self.cited.text


@dataclass(frozen=True, kw_only=True)
class Generator:
    """Who answers, and how. Raises `ReadingError`: `no_generator_model`, `generator_range`.

    Of the passages of a question the first `most_passages` are sent, each cut after `most_characters`. Silence of
    `timeout_seconds` ends a call; it must be longer than the server takes to read the passages.
    """

    name: str
    model: str
    prompt: Prompt = field(default_factory=lambda: prompts()["ko"])
    temperature: float = 0.0
    most_passages: int = 5
    most_characters: int = 2000
    timeout_seconds: float = TIMEOUT_SECONDS

    def __post_init__(self) -> None:
        if not self.model.strip():
            raise ReadingError("no_generator_model", "name the language model that is to answer")
        for name, (low, high) in _RANGES.items():
            require_range(name, getattr(self, name), low, high)

    def chat(self, endpoint: Endpoint) -> Chat:
        """Return the model at an endpoint."""
        return Chat(endpoint, self.model, self.temperature, self.timeout_seconds)

    def requests(self, question_set: QuestionSet, rankings: Rankings) -> list[Request]:
        """Return the requests of a set's questions and what a retriever found for each, `(n_questions, k)`."""
        passages, rows = question_set.passages, rankings.first(self.most_passages).indices
        return [
            Request(question.id, question.text, [passages[row] for row in found if row != NOT_FOUND])
            for question, found in zip(question_set.questions, rows.tolist(), strict=True)
        ]

    def messages(self, request: Request) -> Messages:
        """Return what is sent of a request."""
        sent = tuple(as_sent(passage, self.most_characters) for passage in request.passages[: self.most_passages])
        return Messages(self.prompt.system, self.prompt.asking(request.question, sent), sent)

    def answer(self, answer: Answer, sent: tuple[Passage, ...]) -> GeneratedAnswer:
        """Return what a model said of passages. It refused where, citations apart, it said the refusal and no more."""
        said, refusal = (normalized(cited(text).text, Rules.KORQUAD) for text in (answer.text, self.prompt.refusal))
        return GeneratedAnswer(answer.text, answer.usage, sent, refused=said == refusal)


def require_range(name: str, value: float, low: float, high: float) -> None:
    """Raise `ReadingError` (`generator_range`) where a value is not from `low` to `high`."""
    if not low <= value <= high:
        text = f"{name} must be from {low:g} to {high:g}, not {value}"
        raise ReadingError("generator_range", text, name=name, low=f"{low:g}", high=f"{high:g}")
