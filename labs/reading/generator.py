"""Generators: a language model with a prompt, the passages in its requests, and the citations in its answers."""

import re
import tomllib
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import numpy as np
import regex
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, StringConstraints

from mrc_workbench.data.cache import key_of
from mrc_workbench.data.files import accept_earlier_names
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.text.marking import answer_spans, matched_spans
from mrc_workbench.labs.reading.scores import EXACT, ReadingError, ScoringRules, normalize_answer, score_answer
from mrc_workbench.models.llm import TIMEOUT_SECONDS, ChatAnswer, Endpoint, Usage, remove_thoughts
from mrc_workbench.retrieval.rankings import NOT_FOUND, Rankings
from mrc_workbench.retrieval.significance import proportion_intervals, question_groups

if TYPE_CHECKING:
    from mrc_workbench.models.llm_connection import Chat  # imports the library

_NUMBER = r"\d{1,3}"  # in any script, also full-width; four digits in brackets are a year
_NUMBER_OR_RANGE = rf"{_NUMBER}(?:\s*[-‐–—－~～〜]\s*{_NUMBER})?"
CITATION = regex.compile(rf"[\[［【]\s*({_NUMBER_OR_RANGE}(?:\s*[,，、;；]\s*{_NUMBER_OR_RANGE})*)\s*[\]］】]")
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100)]
CONTAINS = "contains"
CITES = "cites"
CITATIONS_HOLD = "citations_hold"
CITES_NEVER_SENT = "cites_never_sent"
REFUSED_WITH_PASSAGE = "refused_with_passage"
REFUSED_WITHOUT_PASSAGE = "refused_without_passage"


def contains(text: str, answer: str, rules: ScoringRules) -> bool:
    """Whether a text contains an answer that is not empty, both normalized.

    A match never starts or ends inside a number or a Latin word: "3" is not in "1934".
    """
    normalized_answer = unicodedata.normalize("NFC", normalize_answer(answer, rules))
    return bool(normalized_answer) and bool(
        answer_spans(unicodedata.normalize("NFC", normalize_answer(text, rules)), [normalized_answer])
    )


def contains_words(text: str, answer: str) -> bool:
    """Whether a text has every content word of an answer (at least one) in any order.

    Words are content morphemes in Korean and lower-cased words in other languages, as in `data.text.marking`.
    """
    answer = unicodedata.normalize("NFC", answer)
    (answer_words,) = matched_spans(f"{text}\n{answer}", [answer])  # all words of the answer
    (matched_words,) = matched_spans(text, [answer])
    return bool(answer_words) and matched_words == answer_words


class Support(StrEnum):
    """Whether a cited passage supports the answer."""

    HOLDS = "holds"
    LACKS = "lacks"
    NEVER_SENT = "never_sent"


class Citation(NamedTuple):
    """A cited number, from 1, and whether its passage supports the answer."""

    number: int
    support: Support


@dataclass(frozen=True)
class CitedAnswer:
    """An answer without its citations, and the distinct cited numbers in the order of the answer."""

    text: str
    numbers: tuple[int, ...]


def parse_citations(response: str) -> CitedAnswer:
    """Separate an answer from its citations: `[2]`, `[1][3]`, `[1, 3]`, `[1-3]`, also in full-width signs."""
    answer = remove_thoughts(response)
    matches = [*CITATION.finditer(answer)]
    edges = [0, *(edge for match in matches for edge in match.span()), len(answer)]
    text = "".join(answer[start:end].rstrip() for start, end in zip(edges[::2], edges[1::2], strict=True))
    numbers: dict[int, None] = {}
    for part in (part for match in matches for part in regex.findall(_NUMBER_OR_RANGE, match[1])):
        first, *last = sorted(map(int, regex.findall(r"\d+", part)))
        numbers |= dict.fromkeys(range(first, (last or [first])[0] + 1))
    return CitedAnswer(text.strip(), tuple(numbers))


def check_citations(answer: CitedAnswer, sent: Sequence[Passage], rules: ScoringRules) -> tuple[Citation, ...]:
    """Check each cited passage: it supports an answer if it contains the answer or all its content words."""
    citations = []
    for number in answer.numbers:
        if not 1 <= number <= len(sent):
            citations.append(Citation(number, Support.NEVER_SENT))
            continue
        text = f"{sent[number - 1].title}\n{sent[number - 1].text}"
        holds = contains(text, answer.text, rules) or contains_words(text, answer.text)
        citations.append(Citation(number, Support.HOLDS if holds else Support.LACKS))
    return tuple(citations)


@dataclass(frozen=True)
class Prompt:
    """The system instruction, the user's text, and the sentence for refusals.

    The instruction has the placeholder `{refusal}`, the template `{passages}` and `{question}`. Raises `ReadingError`
    (`bad_template`) if one is missing, or the refusal is empty.
    """

    instruction: str
    template: str
    refusal: str

    def __post_init__(self) -> None:
        for name, text in (("refusal", self.instruction), ("passages", self.template), ("question", self.template)):
            if f"{{{name}}}" not in text:
                raise ReadingError("bad_template", f"the prompt lacks {{{name}}}", placeholder=f"{{{name}}}")
        if not self.refusal.strip():
            raise ReadingError("bad_template", "the prompt's refusal is empty", placeholder="{refusal}")

    @property
    def system(self) -> str:
        return _fill_template(self.instruction, {"refusal": self.refusal.strip()})

    def user_text(self, question: str, sent: Sequence[Passage]) -> str:
        """Return the user's text with a question, on one line, and passages from `as_sent`."""
        values = {"passages": format_passages(sent), "question": " ".join(question.split())}
        return _fill_template(self.template, values)


@cache
def load_prompts() -> dict[str, Prompt]:
    """Return the packaged prompts by language."""
    languages = tomllib.loads(Path(__file__).with_name("prompts.toml").read_text(encoding="utf-8"))
    prompts = {}
    for language, texts in languages.items():
        prompts[language] = Prompt(**{name: text.strip() for name, text in texts.items()})
    return prompts


def prepare_passage(passage: Passage, max_characters: int) -> Passage:
    """Return a passage for a request: truncated, and without text that a model could misread.

    Citations, `[3]`, become `(3)`, and `<|`, which marks turns in many models, becomes `< |`.
    """
    rest = "…" if len(passage.text) > max_characters else ""
    return Passage(passage.id, _sanitize(passage.text[:max_characters] + rest), _sanitize(passage.title))


def format_passages(sent: Sequence[Passage]) -> str:
    """Return passages under their numbers, `[1]` and so on, with each line quoted by `> `, the title first.

    The quotation prevents a passage from adding numbers or ending itself.
    """
    parts = []
    for number, passage in enumerate(sent, start=1):
        title = [" ".join(passage.title.split()), ""] if passage.title.strip() else []
        parts.append(f"[{number}]\n" + "\n".join(f"> {line}" for line in [*title, *passage.text.splitlines()]))
    return "\n\n".join(parts)


def _sanitize(text: str) -> str:
    return str(CITATION.sub(r"(\1)", text)).replace("<|", "< |")


def _fill_template(template: str, values: Mapping[str, str]) -> str:
    return re.sub(r"\{(passages|question|refusal)\}", lambda match: values.get(match[1], match[0]), template)


@dataclass(frozen=True)
class GenerationRequest:
    """A question and its retrieved passages, the best first."""

    id: str
    question: str
    passages: Sequence[Passage]


@dataclass(frozen=True)
class ChatMessages:
    """The system's and the user's text of a request, and the passages as they are in the text."""

    system: str
    text: str
    passages: tuple[Passage, ...]

    @cached_property
    def key(self) -> str:
        """sha256 (hexadecimal) of both texts."""
        return key_of(self.system, self.text)

    @property
    def size(self) -> int:
        """Bytes of UTF-8."""
        return len(self.system.encode()) + len(self.text.encode())


@dataclass(frozen=True)
class GeneratedAnswer:
    """A model's response and usage, the passages sent as `[1]` and so on, and whether the model refused."""

    response: str
    usage: Usage
    passages: tuple[Passage, ...]
    refused: bool

    @cached_property
    def cited_answer(self) -> CitedAnswer:
        return parse_citations(self.response)

    @property
    def prediction(self) -> str:
        """The answer without citations; empty ("no answer") for a refusal."""
        return "" if self.refused else self.cited_answer.text


class GeneratorSpec(BaseModel):
    """A language model at the environment's endpoint; `prompt` is the language of the prompt.

    It reads the top `max_passages`, each truncated to `max_characters`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: Name
    model: Name
    prompt: Name = "ko"
    temperature: float = 0.0
    max_passages: PositiveInt = 5
    max_characters: PositiveInt = 2000
    max_questions: int = Field(default=0, ge=0)  # 0: all
    price_prompt: float = Field(default=0.0, ge=0)
    price_completion: float = Field(default=0.0, ge=0)
    max_cost: float | None = Field(default=None, ge=0)
    _earlier = accept_earlier_names(
        {"most_passages": "max_passages", "most_characters": "max_characters"}
        | {"questions": "max_questions", "most_cost": "max_cost"}
    )


@dataclass(frozen=True, kw_only=True)
class Generator:
    """A language model with its settings. Raises `ReadingError`: `no_generator_model`, `generator_range`.

    It reads the top `max_passages`, each truncated to `max_characters`. A call ends after `timeout_seconds` without
    data, which must exceed the time that the server needs to read the passages.
    """

    name: str
    model: str
    prompt: Prompt = field(default_factory=lambda: load_prompts()["ko"])
    temperature: float = 0.0
    max_passages: int = 5
    max_characters: int = 2000
    timeout_seconds: float = TIMEOUT_SECONDS

    def __post_init__(self) -> None:
        if not self.model.strip():
            raise ReadingError("no_generator_model", "enter the name of a language model")
        require_range("temperature", self.temperature, 0, 2)
        require_range("max_passages", self.max_passages, 1, 100)
        require_range("max_characters", self.max_characters, 1, 100_000)
        require_range("timeout_seconds", self.timeout_seconds, 0.01, 3600)

    def chat(self, endpoint: Endpoint) -> "Chat":
        from mrc_workbench.models.llm_connection import Chat

        return Chat(endpoint, self.model, self.temperature, self.timeout_seconds)

    def requests(self, question_set: QuestionSet, rankings: Rankings) -> list[GenerationRequest]:
        """Return the requests for a set's questions and the passages of a ranking."""
        passages = question_set.passages
        rows = rankings.first(self.max_passages).indices
        return [
            GenerationRequest(question.id, question.text, [passages[row] for row in passage_rows if row != NOT_FOUND])
            for question, passage_rows in zip(question_set.questions, rows.tolist(), strict=True)
        ]

    def build_messages(self, request: GenerationRequest) -> ChatMessages:
        sent = tuple(prepare_passage(passage, self.max_characters) for passage in request.passages[: self.max_passages])
        return ChatMessages(self.prompt.system, self.prompt.user_text(request.question, sent), sent)

    def parse_answer(self, answer: ChatAnswer, sent: tuple[Passage, ...]) -> GeneratedAnswer:
        """Return a model's answer, a refusal if it equals the prompt's refusal apart from citations."""

        def normalize(text: str) -> str:
            return normalize_answer(parse_citations(text).text, ScoringRules.KORQUAD)

        refused = normalize(answer.text) == normalize(self.prompt.refusal)
        return GeneratedAnswer(answer.text, answer.usage, sent, refused)


def require_range(name: str, value: float, low: float, high: float) -> None:
    """Raise `ReadingError` (`generator_range`) if a value is not from `low` to `high`."""
    if not low <= value <= high:
        text = f"{name} must be from {low:g} to {high:g}, not {value}"
        raise ReadingError("generator_range", text, name=name, low=f"{low:g}", high=f"{high:g}")


@dataclass(frozen=True)
class GeneratedScores:
    """Metrics of each question, `(n_questions,)` float64 from 0 to 1, NaN if a metric does not apply.

    Answered questions have exact match and overlap of the answer without citations (a refusal is "no answer"), and
    `contains` (a right answer). Other answers than refusals have `cites` (a passage) and `cites_never_sent` (a number
    that was not sent). Answers with citations have `citations_hold`, the fraction of supporting citations. Refusals
    are `refused_with_passage` if a relevant passage was sent, else `refused_without_passage`. Higher is better except
    for `cites_never_sent` and `refused_with_passage`.

    `intervals` are 95% intervals of the means, with questions about the same passages as groups. Metrics exclude the
    `n_unanswered` questions.
    """

    per_question: dict[str, np.ndarray]
    intervals: dict[str, tuple[float, float]]
    n_unanswered: int

    def means(self) -> dict[str, float]:
        return {name: float(np.nanmean(self.per_question[name])) for name in self.intervals}


def score_generated_answers(
    question_set: QuestionSet, answers: Mapping[str, GeneratedAnswer], rules: ScoringRules
) -> GeneratedScores:
    """Score answers by question id. Raises `ReadingError` (`other_questions`) if none is of the set."""
    questions = question_set.questions
    rows = [row for row, question in enumerate(questions) if question.id in answers]
    if not rows:
        raise ReadingError("other_questions", f"no answer is of a question of {question_set.name!r}")
    question_metrics = [_question_metrics(questions[row], answers[questions[row].id], rules) for row in rows]
    citing = (CITES, CITATIONS_HOLD, CITES_NEVER_SENT)
    names = (EXACT, rules.overlap_name, CONTAINS, *citing, REFUSED_WITH_PASSAGE, REFUSED_WITHOUT_PASSAGE)
    per_question = {name: np.full(len(questions), np.nan) for name in names}
    for row, values in zip(rows, question_metrics, strict=True):
        for name, value in values.items():
            per_question[name][row] = value
    groups = question_groups(question_set)
    intervals = {}
    for name, column in per_question.items():
        known = ~np.isnan(column)
        if known.any():
            group_ids = np.unique(groups[known], return_inverse=True)[1]  # consecutive
            ((low, high),) = proportion_intervals(column[known, None], group_ids).tolist()
            intervals[name] = (low, high)
    return GeneratedScores(per_question, intervals, len(questions) - len(rows))


def _question_metrics(question: Question, answer: GeneratedAnswer, rules: ScoringRules) -> dict[str, float]:
    exact, overlap = score_answer(answer.prediction, question.answers, rules)
    contains_gold = any(contains(answer.prediction, gold_answer, rules) for gold_answer in question.answers)
    values = {EXACT: exact, rules.overlap_name: overlap, CONTAINS: float(contains_gold) if question.answers else exact}
    has_relevant = any(passage.id in question.relevant for passage in answer.passages)
    values[REFUSED_WITH_PASSAGE if has_relevant else REFUSED_WITHOUT_PASSAGE] = float(answer.refused)
    if not answer.refused:
        support = [citation.support for citation in check_citations(answer.cited_answer, answer.passages, rules)]
        values |= {CITES: float(bool(support)), CITES_NEVER_SENT: float(Support.NEVER_SENT in support)}
        if support:
            values[CITATIONS_HOLD] = support.count(Support.HOLDS) / len(support)
    return values
