"""A corpus becomes a question set whose questions were made of its passages; `mrc data generate` stores it.

Titles ask for all the passages of their article, and sentences for the rest of their passage: the inverse cloze task
(Lee et al. 2019). Language models write questions as well: doc2query (Nogueira & Lin 2019).
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

from mrc_workbench.data.cache import key_of
from mrc_workbench.data.commands import stop_message, takes
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.records import Maker, Passages, Question, QuestionSet, made_by, without
from mrc_workbench.data.store import find, keep
from mrc_workbench.data.terminal import end_progress_line, report_progress, tell
from mrc_workbench.data.text.marking import sentence_spans
from mrc_workbench.data.workspace import workspace
from mrc_workbench.models.llm import MODEL, Endpoint, EndpointError, KeptAnswers, ask_each, without_thoughts

_LETTER = regex.compile(r"\p{L}")
_LEAST_LETTERS = 0.6  # of its characters: what has fewer is a date, a table or a formula
_LONGEST, _SHORTEST = 300, 4  # characters of a question
_LONGEST_PASSAGE = 8000  # characters that are sent
_NUMBERED = re.compile(r"^\s*(?:[-*•]|\(?\d{1,2}[.):])\s*")
_SHOWN = 200  # characters of an answer that nothing could be made of
_LISTED = 5  # passages of a preview, questions, and passages without one
_QUESTIONS = TypeAdapter(list[str])
K = TypeVar("K")
Progress = Callable[[int, int], None]  # passages done, passages in all


class QuestionsError(Failure):
    """Questions that cannot be made; `code` is a key of `made.` in the locale files."""


class PromptLanguage(StrEnum):
    """The language of the prompt that comes with the program."""

    KOREAN = "ko"
    ENGLISH = "en"


def option(default: Any, text: str, low: float | None = None, high: float | None = None) -> Any:
    """Declare a field: its default, a line of help, and its smallest and largest value."""
    return field(default=default, metadata={"help": text, "low": low, "high": high})


@dataclass(frozen=True, kw_only=True)
class MakerOptions:
    """How questions are made; every question names its `model`. Raises `QuestionsError` for an option out of range."""

    by: Maker = option(Maker.SENTENCE, "what asks: the article's title, a sentence of the passage, or a language model")
    most: int = option(0, "passages (by title: articles) that are asked about, drawn by the seed; 0: all", 0)
    per_passage: int = option(1, "questions a passage at most (sentence, model)", 1, 20)
    taken_out: float = option(0.9, "share of the sentences that are taken out of their passage in training", 0, 1)
    shortest: int = option(20, "characters of a sentence, and of what is left of its passage, at least", 2, 1000)
    longest: int = option(200, "characters of a sentence at most", 2, 10_000)
    model: str = option("", "name of the language model at the endpoint")
    language: PromptLanguage = option(PromptLanguage.KOREAN, "language of the prompt, where none is given")
    prompt: str = option("", "what the language model is told; {n} stands for the number of questions")
    temperature: float = option(0.7, "how freely the language model writes", 0, 2)
    concurrency: int = option(4, "passages that the endpoint is asked about at the same time", 1, 64)
    seed: int = option(0, "seed of every random choice", 0, 2**31 - 1)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by", Maker(self.by))  # read from a command, they are plain words
        object.__setattr__(self, "language", PromptLanguage(self.language))
        for known in fields(self):
            value, low, high = getattr(self, known.name), known.metadata.get("low"), known.metadata.get("high")
            if (low is not None and not value >= low) or (high is not None and not value <= high):
                wanted = f"between {low} and {high}" if high is not None else f"{low} or more"
                raise QuestionsError("range", f"{known.name} must be {wanted}, not {value}", wanted=wanted)
        if self.longest < self.shortest:
            raise QuestionsError("range", "longest must not be below shortest", wanted=str(self.shortest))
        if self.by is Maker.MODEL and not self.model.strip():
            raise QuestionsError("no_model", "name the language model that is to write the questions")

    @property
    def made(self) -> str:
        return made_by(self.by, self.model.strip())


class _Draft(NamedTuple):
    """What asks, the row of the passage it was made of, and whether training is to take it out there."""

    text: str
    row: int
    hidden: bool = False


@dataclass(frozen=True)
class Unanswered:
    """A passage of which no question came: why, a code of `made.` or `chat.` with its details, and what was said."""

    row: int
    code: str
    said: str
    details: dict[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True)
class MadeQuestions:
    """The set, the number of its passages with questions, those without usable ones, and of those not asked about."""

    question_set: QuestionSet
    passages_asked: int
    unanswered: tuple[Unanswered, ...] = ()
    left: int = 0


def make_questions(
    question_set: QuestionSet,
    options: MakerOptions,
    endpoint: Endpoint | None = None,
    *,
    name: str = "",
    on_progress: Progress = lambda _done, _total: None,
) -> MadeQuestions:
    """Make questions of the passages of a set; those it has are not looked at.

    The same passages, options and stored answers give the same set. Equal questions are one, with the passages of all.
    Raises `QuestionsError` if no question comes, `EndpointError` if the model cannot be asked; its answers are stored.
    """
    passages = question_set.passages
    unanswered: list[Unanswered] = []
    left = 0
    match options.by:
        case Maker.TITLE:
            drafts = _title_drafts(passages, options)
        case Maker.SENTENCE:
            drafts = _sentence_drafts(passages, options, on_progress)
        case Maker.MODEL:
            drafts, unanswered, left = _written_drafts(passages, options, endpoint, on_progress)
    if not drafts:
        raise _nothing_made(options, unanswered)
    questions = _questions(drafts, passages, options)
    made = replace(question_set, name=name or f"{question_set.name} · {options.made}", questions=questions)
    return MadeQuestions(made, len({draft.row for draft in drafts}), tuple(unanswered), left)


def _questions(drafts: list[_Draft], passages: Passages, options: MakerOptions) -> tuple[Question, ...]:
    merged: defaultdict[str, list[_Draft]] = defaultdict(list)
    for draft in drafts:
        merged[draft.text].append(draft)
    return tuple(
        Question(
            id=f"made{number}",
            text=text,
            relevant=tuple(passages.ids[row] for row in dict.fromkeys(draft.row for draft in same)),
            made=options.made,
            hidden=any(draft.hidden for draft in same),
        )
        for number, (text, same) in enumerate(merged.items(), start=1)
    )


def _nothing_made(options: MakerOptions, unanswered: Sequence[Unanswered]) -> QuestionsError:
    if unanswered:
        first = unanswered[0].said
        return QuestionsError("nothing_usable", f"no answer held a list of questions; the first: {first}", first=first)
    errors = {
        Maker.TITLE: ("no_titles", "no passage has a title that could ask for it"),
        Maker.SENTENCE: ("no_sentences", "no passage has a sentence to spare: they are too short, or repeat"),
        Maker.MODEL: ("nothing_written", "nothing was written yet: an endpoint is needed"),
    }
    return QuestionsError(*errors[options.by])


def _drawn(count: int, options: MakerOptions) -> list[int]:
    """Draw numbers below `count`, ascending. A preview shows what comes: fewer numbers are among those of more."""
    numbers = np.random.default_rng(options.seed).permutation(count)
    return sorted(numbers[: options.most or count].tolist())


def _title_drafts(passages: Passages, options: MakerOptions) -> list[_Draft]:
    # hidden: passages are trained on without titles, or a model would learn to compare two equal lines
    rows_of: defaultdict[str, list[int]] = defaultdict(list)
    for row, title in enumerate(passages.titles):
        if title.strip():
            rows_of[title.strip()].append(row)
    titles = list(rows_of)
    drawn = [titles[number] for number in _drawn(len(titles), options)]
    return [_Draft(title, row, hidden=True) for title in drawn for row in rows_of[title]]


def _sentence_drafts(passages: Passages, options: MakerOptions, on_progress: Progress) -> list[_Draft]:
    """Draw sentences that no other passage has, by a lottery for each passage (`taken_out`: Lee et al. 2019, 5.1)."""
    drafts: list[_Draft] = []
    seen, repeated = set[int](), set[int]()
    rows = _drawn(len(passages), options)
    for done, row in enumerate(rows):
        on_progress(done, len(rows))
        text = passages.texts[row]
        sentences = list(dict.fromkeys(sentences_of(text)))
        hashes = set(map(hash, sentences))
        repeated |= seen & hashes
        seen |= hashes
        drafts += _drawn_sentences(text, sentences, row, options)
    on_progress(len(rows), len(rows))
    return [draft for draft in drafts if hash(draft.text) not in repeated]


def sentences_of(text: str) -> Iterator[str]:
    """Yield the sentences of a text, letter for letter as they stand in it."""
    composed = unicodedata.normalize("NFC", text)
    for start, end in sentence_spans(composed):
        sentence = composed[start:end].strip()
        if sentence and sentence in text:  # of a text that is not composed only those that do not show it
            yield sentence


def _is_informative(sentence: str, options: MakerOptions) -> bool:
    words, letters = len(sentence.split()), len(_LETTER.findall(sentence))
    is_spaced = words >= 3 or words == 1  # where words are not spaced, as in Japanese, there is one
    has_length = options.shortest <= len(sentence) <= options.longest
    return has_length and is_spaced and letters >= _LEAST_LETTERS * (len(sentence) - words + 1)


def _drawn_sentences(text: str, sentences: list[str], row: int, options: MakerOptions) -> Iterator[_Draft]:
    """Yield up to `per_passage` drafts, leaving enough of the passage when all of them are taken out."""
    usable = [one for one in sentences if _is_informative(one, options) and text.count(one) == 1]
    content = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
    lottery = np.random.default_rng([options.seed, int.from_bytes(content[:8], "little")])
    taken: list[str] = []
    for place in lottery.permutation(len(usable)).tolist():
        if len(without(text, [*taken, usable[place]])) >= options.shortest:
            taken.append(usable[place])
            yield _Draft(usable[place], row, hidden=bool(lottery.random() < options.taken_out))
        if len(taken) == options.per_passage:
            return


def questions_in(answer: str, most: int) -> list[str]:
    """Return the first JSON list of texts in an answer, or its lines if all end with a question mark; up to `most`."""
    text = without_thoughts(answer)
    lines = [_NUMBERED.sub("", line).strip().strip('"“”') for line in text.splitlines() if line.strip()]
    questions = lines if all(line.endswith(("?", "？")) for line in lines) else []
    for bracket in islice(re.finditer(r"\[", text), 50):
        with suppress(ValueError, RecursionError):
            value, _ = json.JSONDecoder().raw_decode(text, bracket.start())
            if value and all(isinstance(item, str) for item in value):
                questions = value
                break
    usable = (" ".join(question.split()) for question in questions)
    return list(dict.fromkeys(question for question in usable if _SHORTEST <= len(question) <= _LONGEST))[:most]


@cache
def prompts() -> dict[str, dict[str, str]]:
    """Return the prompts that come with the program, by language and name."""
    return tomllib.loads((Path(__file__).parent / "prompts.toml").read_text(encoding="utf-8"))


def unusable_answers(
    requests: Sequence[K], ask: Callable[[K], str], concurrency: int, on_progress: Callable[[int], None]
) -> list[tuple[K, str | EndpointError]]:
    """Ask about each request; return those with an error, or with an answer that `ask` returns as it cannot use it."""
    done = 0
    failed: list[tuple[K, str | EndpointError]] = []
    with closing(ask_each(requests, ask, concurrency)) as answers:
        for answered in answers:
            if answered is not None:
                done += 1
                failed += [answered] if answered[1] else []
            on_progress(done)
    return failed


def _written_drafts(
    passages: Passages, options: MakerOptions, endpoint: Endpoint | None, on_progress: Progress
) -> tuple[list[_Draft], list[Unanswered], int]:
    """Ask the model, or take stored answers; return drafts, passages without any, and how many were not asked about."""
    instruction = options.prompt.strip() or prompts()[options.language]["instruction"].strip()
    instruction = instruction.replace("{n}", str(options.per_passage))
    title_word = prompts().get(options.language, prompts()[PromptLanguage.ENGLISH])["title"]
    # stored with one model, prompt and temperature, by passage
    key = key_of(options.model, instruction, options.language, options.temperature)[:16]
    path = workspace() / "cache" / "questions" / f"{key}.jsonl"
    stored, rows = (
        KeptAnswers(path, "passage", lambda entry: _QUESTIONS.validate_python(entry["questions"])),
        _drawn(len(passages), options),
    )
    keys = {row: key_of(passages.titles[row], passages.texts[row]) for row in rows}
    new = [row for row in rows if stored.get(keys[row]) is None]
    failed: list[tuple[int, str | EndpointError]] = []
    if endpoint and new:
        from mrc_workbench.models.llm_connection import Chat  # imports the library

        known = len(rows) - len(new)
        chat = Chat(endpoint, options.model, options.temperature)

        def ask(row: int) -> str:
            """Return an answer that holds no question, else nothing."""
            passage = passages[row]
            title = f"{title_word}: {passage.title}\n\n" if passage.title else ""
            answer = chat.answer(instruction, title + passage.text[:_LONGEST_PASSAGE])
            questions = questions_in(answer, options.per_passage)
            if not questions:
                return answer or " "
            stored.add(keys[row], questions, {"questions": questions})
            return ""

        failed = unusable_answers(new, ask, options.concurrency, lambda done: on_progress(known + done, len(rows)))
    on_progress(len(rows), len(rows))
    drafts = [_Draft(question, row) for row in rows for question in stored.get(keys[row]) or []]
    unanswered = [
        Unanswered(row, answer.code, str(answer), answer.details)
        if isinstance(answer, EndpointError)
        else Unanswered(row, "unusable", " ".join(answer.split())[:_SHOWN])
        for row, answer in sorted(failed, key=lambda asked: asked[0])
    ]
    return drafts, unanswered, 0 if endpoint else len(new)


@takes(MakerOptions, without=("prompt",), required=("by",), suited=MakerOptions(model=os.environ.get(MODEL, "")))
def generate(
    data: Annotated[str, Parameter(help="a path, or a name or key of the catalog or the workspace")],
    /,
    *,
    name: Annotated[str, Parameter(help="name of the new dataset")] = "",
    preview: Annotated[bool, Parameter(negative="", help=f"only show questions of {_LISTED} passages")] = False,
    no_calls: Annotated[bool, Parameter(negative="", help="model: use stored answers only")] = False,
    prompt: Annotated[
        Path | None, Parameter(help="model: file with the prompt; {n} is the number of questions")
    ] = None,
    **chosen: Any,
) -> int:
    """Generate questions for the passages of a dataset.

    The title of an article asks for its passages, a sentence for the rest of its passage (inverse cloze task), or a
    language model at a chat endpoint writes questions that a passage answers. Environment variables name the endpoint:
    OPENAI_BASE_URL, OPENAI_MODEL (or --model) and, if it needs one, OPENAI_API_KEY.
    """
    chosen.setdefault("model", os.environ.get(MODEL, ""))
    if prompt:
        chosen["prompt"] = prompt.read_text(encoding="utf-8")
    if preview:
        chosen["most"] = min(_LISTED, chosen.get("most", 0) or _LISTED)
    options, question_set = MakerOptions(**chosen), find(data)
    endpoint = Endpoint.of() if options.by is Maker.MODEL and not no_calls else None
    with stop_message("Stopped. Answers of the language model are kept: run the same command again to continue."):
        found = make_questions(
            question_set,
            options,
            endpoint,
            name=name,
            on_progress=lambda done, total: report_progress(f"{done:,} of {total:,} passages", done / max(1, total)),
        )
    end_progress_line()
    tell("\n".join(_lines(found)))
    if not preview:
        kept = keep(found.question_set, source=question_set.name)
        tell(f"stored as {kept.key}: `mrc train bi-encoder --data {kept.key}` trains with them")
    return 0


def _lines(found: MadeQuestions) -> list[str]:
    questions = found.question_set.questions
    lines = [f"{len(questions):,} questions of {found.passages_asked:,} passages: {found.question_set.name}"]
    lines += [f"  {question.text}" for question in questions[:_LISTED]]
    if len(questions) > _LISTED:
        lines.append(f"  and {len(questions) - _LISTED:,} more")
    if found.left:
        lines.append(f"Passages not asked about yet: {found.left:,}")
    if found.unanswered:
        lines.append(f"Passages of which no question came: {len(found.unanswered):,}")
        ids = found.question_set.passages.ids
        lines += [f"  {ids[one.row]}: {one.code}: {one.said}" for one in found.unanswered[:_LISTED]]
    return [*lines, "They are made, not asked: good to train with, and no test of a search"]
