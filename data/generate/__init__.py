"""Generates synthetic questions from the passages of a corpus; `mrc data generate` stores the question set.

The title of an article is a question about its passages, and a sentence about the rest of its passage: the inverse
cloze task (Lee et al. 2019). Language models write questions: doc2query (Nogueira & Lin 2019).
"""

import hashlib
import json
import os
import re
import tomllib
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np
import regex
from cyclopts import Parameter
from pydantic import TypeAdapter

from mrc_workbench.data import records
from mrc_workbench.data.cache import key_of
from mrc_workbench.data.commands import add_options, stop_message
from mrc_workbench.data.files import current_names
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.records import Passages, Question, QuestionGenerator, QuestionSet
from mrc_workbench.data.store import find, save_question_set
from mrc_workbench.data.terminal import end_progress_line, print_line, report_progress
from mrc_workbench.data.text.marking import sentence_spans
from mrc_workbench.data.workspace import workspace
from mrc_workbench.models.llm import MODEL, Endpoint, EndpointError, StoredAnswers, remove_thoughts, run_requests

_LETTER = regex.compile(r"\p{L}")
_MIN_LETTER_FRACTION = 0.6  # of the characters; dates, tables and formulas have fewer letters
_MAX_QUESTION_LENGTH = 300  # characters
_MIN_QUESTION_LENGTH = 4
_MAX_PASSAGE_LENGTH = 8000  # characters that are sent
_LIST_MARKER = re.compile(r"^\s*(?:[-*•]|\(?\d{1,2}[.):])\s*")
_MAX_EXCERPT_LENGTH = 200  # characters of an unusable answer
_MAX_LISTED = 5  # passages of a preview, questions, and passages without a question
_QUESTIONS = TypeAdapter(list[str])
_EARLIER_NAMES = {"most": "limit", "taken_out": "removal_fraction", "shortest": "min_length", "longest": "max_length"}
RequestT = TypeVar("RequestT")
Progress = Callable[[int, int], None]  # passages done, passages in all


class QuestionsError(Failure):
    """Questions cannot be generated; `code` is a key of `made.` in the locale files."""


class PromptLanguage(StrEnum):
    """The language of a default prompt."""

    KOREAN = "ko"
    ENGLISH = "en"


def option(default: Any, text: str, low: float | None = None, high: float | None = None) -> Any:
    """Declare a field: its default, a line of help, and its smallest and largest value."""
    return field(default=default, metadata={"help": text, "low": low, "high": high})


@dataclass(frozen=True, kw_only=True)
class GenerationOptions:
    """How to generate questions. Raises `QuestionsError` for an option out of range."""

    by: QuestionGenerator = option(QuestionGenerator.SENTENCE, "titles, sentences of passages, or a language model")
    limit: int = option(0, "passages (by title: articles) with questions, drawn by the seed; 0: all", 0)
    per_passage: int = option(1, "maximal number of questions per passage (sentence, model)", 1, 20)
    removal_fraction: float = option(0.9, "fraction of sentences that training removes from their passage", 0, 1)
    min_length: int = option(20, "minimal characters of a sentence, and of the rest of its passage", 2, 1000)
    max_length: int = option(200, "maximal characters of a sentence", 2, 10_000)
    model: str = option("", "name of the language model at the endpoint")
    language: PromptLanguage = option(PromptLanguage.KOREAN, "language of the default prompt")
    prompt: str = option("", "prompt of the language model; {n} is the number of questions")
    temperature: float = option(0.7, "sampling temperature of the language model", 0, 2)
    concurrency: int = option(4, "number of parallel requests to the endpoint", 1, 64)
    seed: int = option(0, "random seed", 0, 2**31 - 1)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by", QuestionGenerator(self.by))  # commands pass strings
        object.__setattr__(self, "language", PromptLanguage(self.language))
        for known in fields(self):
            value = getattr(self, known.name)
            low = known.metadata.get("low")
            high = known.metadata.get("high")
            if (low is not None and not value >= low) or (high is not None and not value <= high):
                expected = f"between {low} and {high}" if high is not None else f"{low} or more"
                raise QuestionsError("range", f"{known.name} must be {expected}, not {value}", expected=expected)
        if self.max_length < self.min_length:
            raise QuestionsError("range", "max_length must not be below min_length", expected=str(self.min_length))
        if self.by is QuestionGenerator.MODEL and not self.model.strip():
            raise QuestionsError("no_model", "name the language model that writes the questions")

    @property
    def generator_label(self) -> str:
        return records.generator_label(self.by, self.model.strip())


class _Draft(NamedTuple):
    text: str
    row: int  # of the passage
    hidden: bool = False  # training removes the text from the passage


@dataclass(frozen=True)
class FailedPassage:
    """A passage without a question: a code of `made.` or `chat.` with its details, and an excerpt of the answer."""

    row: int
    code: str
    answer_excerpt: str
    details: dict[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True)
class GeneratedQuestions:
    """A set, with the numbers of passages with a question and of passages without a request yet."""

    question_set: QuestionSet
    passage_count: int
    failed_passages: tuple[FailedPassage, ...] = ()
    pending_count: int = 0


def generate_questions(
    question_set: QuestionSet,
    options: GenerationOptions,
    endpoint: Endpoint | None = None,
    *,
    name: str = "",
    on_progress: Progress = lambda _done, _total: None,
) -> GeneratedQuestions:
    """Generate questions from the passages of a set; existing questions are replaced.

    The same passages, options and stored answers give the same set. Equal questions are merged with all passages.
    Raises `QuestionsError` without any question, and `EndpointError` if the model is not available; answers are stored.
    """
    passages = question_set.passages
    failed_passages: list[FailedPassage] = []
    pending_count = 0
    match options.by:
        case QuestionGenerator.TITLE:
            drafts = _title_drafts(passages, options)
        case QuestionGenerator.SENTENCE:
            drafts = _sentence_drafts(passages, options, on_progress)
        case QuestionGenerator.MODEL:
            drafts, failed_passages, pending_count = _model_drafts(passages, options, endpoint, on_progress)
    if not drafts:
        raise _no_questions_error(options, failed_passages)
    name = name or f"{question_set.name} · {options.generator_label}"
    generated = replace(question_set, name=name, questions=_merge_drafts(drafts, passages, options))
    return GeneratedQuestions(generated, len({draft.row for draft in drafts}), tuple(failed_passages), pending_count)


def _merge_drafts(drafts: list[_Draft], passages: Passages, options: GenerationOptions) -> tuple[Question, ...]:
    merged: defaultdict[str, list[_Draft]] = defaultdict(list)
    for draft in drafts:
        merged[draft.text].append(draft)
    return tuple(
        Question(
            id=f"made{number}",
            text=text,
            relevant=tuple(passages.ids[row] for row in dict.fromkeys(draft.row for draft in same)),
            generator=options.generator_label,
            hidden=any(draft.hidden for draft in same),
        )
        for number, (text, same) in enumerate(merged.items(), start=1)
    )


def _no_questions_error(options: GenerationOptions, failed_passages: Sequence[FailedPassage]) -> QuestionsError:
    if failed_passages:
        first = failed_passages[0].answer_excerpt
        return QuestionsError("nothing_usable", f"no answer held a list of questions; the first: {first}", first=first)
    errors = {
        QuestionGenerator.TITLE: ("no_titles", "no passage has a title that could ask for it"),
        QuestionGenerator.SENTENCE: ("no_sentences", "no passage has a sentence to spare: all are short or repeated"),
        QuestionGenerator.MODEL: ("nothing_written", "no questions are stored yet: an endpoint is needed"),
    }
    return QuestionsError(*errors[options.by])


def _sample_indices(count: int, options: GenerationOptions) -> list[int]:
    """Sample indices below `count`, ascending. A smaller sample is part of a larger one, as a preview requires."""
    numbers = np.random.default_rng(options.seed).permutation(count)
    return sorted(numbers[: options.limit or count].tolist())


def _title_drafts(passages: Passages, options: GenerationOptions) -> list[_Draft]:
    # training removes titles from passages, or a model would learn to compare two equal lines
    rows_of: defaultdict[str, list[int]] = defaultdict(list)
    for row, title in enumerate(passages.titles):
        if title.strip():
            rows_of[title.strip()].append(row)
    titles = list(rows_of)
    sampled = [titles[index] for index in _sample_indices(len(titles), options)]
    return [_Draft(title, row, hidden=True) for title in sampled for row in rows_of[title]]


def _sentence_drafts(passages: Passages, options: GenerationOptions, on_progress: Progress) -> list[_Draft]:
    drafts: list[_Draft] = []
    seen: set[int] = set()
    repeated: set[int] = set()
    rows = _sample_indices(len(passages), options)
    for done, row in enumerate(rows):
        on_progress(done, len(rows))
        text = passages.texts[row]
        sentences = list(dict.fromkeys(split_sentences(text)))
        hashes = set(map(hash, sentences))
        repeated |= seen & hashes
        seen |= hashes
        drafts += _sample_sentences(text, sentences, row, options)
    on_progress(len(rows), len(rows))
    return [draft for draft in drafts if hash(draft.text) not in repeated]


def split_sentences(text: str) -> Iterator[str]:
    """Yield the sentences that occur unchanged in a text."""
    composed = unicodedata.normalize("NFC", text)
    for start, end in sentence_spans(composed):
        sentence = composed[start:end].strip()
        if sentence and sentence in text:
            yield sentence


def _is_informative(sentence: str, options: GenerationOptions) -> bool:
    words = len(sentence.split())
    letter_count = len(_LETTER.findall(sentence))
    is_spaced = words >= 3 or words == 1  # a language without spaces, such as Japanese, has a single word
    has_length = options.min_length <= len(sentence) <= options.max_length
    return has_length and is_spaced and letter_count >= _MIN_LETTER_FRACTION * (len(sentence) - words + 1)


def _sample_sentences(text: str, sentences: list[str], row: int, options: GenerationOptions) -> Iterator[_Draft]:
    """Yield up to `per_passage` drafts; without their sentences the passage still has `min_length` characters."""
    usable = [sentence for sentence in sentences if _is_informative(sentence, options) and text.count(sentence) == 1]
    content = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    rng = np.random.default_rng([options.seed, int.from_bytes(content[:8], "little")])
    taken: list[str] = []
    for index in rng.permutation(len(usable)).tolist():
        if len(records.remove_sentences(text, [*taken, usable[index]])) >= options.min_length:
            taken.append(usable[index])
            yield _Draft(usable[index], row, hidden=bool(rng.random() < options.removal_fraction))
        if len(taken) == options.per_passage:
            return


def parse_questions(answer: str, limit: int) -> list[str]:
    """Return the first JSON list of texts in an answer, or its lines if all end with a question mark; up to `limit`."""
    text = remove_thoughts(answer)
    lines = [_LIST_MARKER.sub("", line).strip().strip('"“”') for line in text.splitlines() if line.strip()]
    questions = lines if all(line.endswith(("?", "？")) for line in lines) else []
    for bracket in islice(re.finditer(r"\[", text), 50):
        with suppress(ValueError, RecursionError):
            value, _ = json.JSONDecoder().raw_decode(text, bracket.start())
            if value and all(isinstance(item, str) for item in value):
                questions = value
                break
    texts = (" ".join(question.split()) for question in questions)
    usable = [text for text in texts if _MIN_QUESTION_LENGTH <= len(text) <= _MAX_QUESTION_LENGTH]
    return list(dict.fromkeys(usable))[:limit]


@cache
def prompts() -> dict[str, dict[str, str]]:
    """Return the default prompts by language and name."""
    return tomllib.loads((Path(__file__).parent / "prompts.toml").read_text(encoding="utf-8"))


def collect_failures(
    requests: Sequence[RequestT], ask: Callable[[RequestT], str], concurrency: int, on_progress: Callable[[int], None]
) -> list[tuple[RequestT, str | EndpointError]]:
    """Send the requests; return those with an error, or with an unusable answer, which `ask` returns."""
    done = 0
    failed: list[tuple[RequestT, str | EndpointError]] = []
    with closing(run_requests(requests, ask, concurrency)) as answers:
        for result in answers:
            if result is not None:
                done += 1
                failed += [result] if result[1] else []
            on_progress(done)
    return failed


def _model_drafts(
    passages: Passages, options: GenerationOptions, endpoint: Endpoint | None, on_progress: Progress
) -> tuple[list[_Draft], list[FailedPassage], int]:
    """Return drafts from new or stored answers, the passages without a draft, and the number of pending passages."""
    instruction = options.prompt.strip() or prompts()[options.language]["instruction"].strip()
    instruction = instruction.replace("{n}", str(options.per_passage))
    title_word = prompts().get(options.language, prompts()[PromptLanguage.ENGLISH])["title"]
    key = key_of(options.model, instruction, options.language, options.temperature)[:16]
    path = workspace() / "cache" / "questions" / f"{key}.jsonl"
    stored = StoredAnswers(path, "passage", lambda entry: _QUESTIONS.validate_python(entry["questions"]))
    rows = _sample_indices(len(passages), options)
    keys = {row: key_of(passages.titles[row], passages.texts[row]) for row in rows}
    new = [row for row in rows if stored.get(keys[row]) is None]
    failed: list[tuple[int, str | EndpointError]] = []
    if endpoint and new:
        from mrc_workbench.models.llm_connection import Chat  # imports the library

        chat = Chat(endpoint, options.model, options.temperature)

        def ask(row: int) -> str:
            """Return an answer without questions, else ""."""
            passage = passages[row]
            title = f"{title_word}: {passage.title}\n\n" if passage.title else ""
            answer = chat.answer(instruction, title + passage.text[:_MAX_PASSAGE_LENGTH])
            questions = parse_questions(answer, options.per_passage)
            if not questions:
                return answer or " "
            stored.add(keys[row], questions, {"questions": questions})
            return ""

        known = len(rows) - len(new)
        failed = collect_failures(new, ask, options.concurrency, lambda done: on_progress(known + done, len(rows)))
    on_progress(len(rows), len(rows))
    drafts = [_Draft(question, row) for row in rows for question in stored.get(keys[row]) or []]
    failed_passages: list[FailedPassage] = []
    for row, answer in sorted(failed, key=lambda failure: failure[0]):
        if isinstance(answer, EndpointError):
            failed_passages.append(FailedPassage(row, answer.code, str(answer), answer.details))
        else:
            failed_passages.append(FailedPassage(row, "unusable", " ".join(answer.split())[:_MAX_EXCERPT_LENGTH]))
    return drafts, failed_passages, 0 if endpoint else len(new)


_DEFAULTS = GenerationOptions(model=os.environ.get(MODEL, ""))


@add_options(
    GenerationOptions, excluded=("prompt",), required=("by",), default_instance=_DEFAULTS, earlier_names=_EARLIER_NAMES
)
def generate(
    dataset: Annotated[str, Parameter(help="a path, or a name or key of the catalog or the workspace")],
    /,
    *,
    name: Annotated[str, Parameter(help="name of the new dataset")] = "",
    preview: Annotated[bool, Parameter(negative="", help=f"only show questions of {_MAX_LISTED} passages")] = False,
    no_calls: Annotated[bool, Parameter(negative="", help="model: use stored answers only")] = False,
    prompt: Annotated[Path | None, Parameter(help="model: prompt file; {n} is the number of questions")] = None,
    **option_values: Any,
) -> int:
    """Generate questions for the passages of a dataset.

    Questions are titles of articles, sentences of passages (inverse cloze task), or questions that a language model at
    a chat endpoint writes. Environment variables name the endpoint: OPENAI_BASE_URL, OPENAI_MODEL (or --model) and, if
    needed, OPENAI_API_KEY.
    """
    option_values = current_names(option_values, _EARLIER_NAMES, "mrc data generate")
    option_values.setdefault("model", os.environ.get(MODEL, ""))
    if prompt:
        option_values["prompt"] = prompt.read_text(encoding="utf-8")
    if preview:
        option_values["limit"] = min(_MAX_LISTED, option_values.get("limit", 0) or _MAX_LISTED)
    options = GenerationOptions(**option_values)
    question_set = find(dataset)
    endpoint = Endpoint.from_input() if options.by is QuestionGenerator.MODEL and not no_calls else None

    def on_progress(done: int, total: int) -> None:
        report_progress(f"{done:,} of {total:,} passages", done / max(1, total))

    with stop_message("Stopped. Answers of the language model are stored: run the same command again to continue."):
        generated = generate_questions(question_set, options, endpoint, name=name, on_progress=on_progress)
    end_progress_line()
    print_line("\n".join(_result_lines(generated)))
    if not preview:
        stored_set = save_question_set(generated.question_set, source=question_set.name)
        print_line(f"stored as {stored_set.key}: `mrc train bi-encoder --data {stored_set.key}` trains with them")
    return 0


def _result_lines(generated: GeneratedQuestions) -> list[str]:
    questions = generated.question_set.questions
    lines = [f"{len(questions):,} questions of {generated.passage_count:,} passages: {generated.question_set.name}"]
    lines += [f"  {question.text}" for question in questions[:_MAX_LISTED]]
    if len(questions) > _MAX_LISTED:
        lines.append(f"  and {len(questions) - _MAX_LISTED:,} more")
    if generated.pending_count:
        lines.append(f"Passages without a request yet: {generated.pending_count:,}")
    if generated.failed_passages:
        lines.append(f"Passages without a question: {len(generated.failed_passages):,}")
        ids = generated.question_set.passages.ids
        failed = generated.failed_passages[:_MAX_LISTED]
        lines += [f"  {ids[passage.row]}: {passage.code}: {passage.answer_excerpt}" for passage in failed]
    return [*lines, "These questions are synthetic: use them for training, not for evaluation"]
