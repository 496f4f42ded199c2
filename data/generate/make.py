"""A corpus becomes a question set whose questions were made of its passages: how, and what they ask.

Titles ask for all the passages of their article, and sentences for the rest of their passage: the inverse cloze task
(Lee et al. 2019). A language model can write questions as well, and they are read out of its answers: doc2query
(Nogueira & Lin 2019)."""

import hashlib
import json
import re
import tomllib
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import regex

from mrc_workbench.data.cache import key_of
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.records import Maker, Passage, Passages, Question, QuestionSet, made_by, without
from mrc_workbench.data.text.marking import sentence_spans
from mrc_workbench.data.workspace import workspace
from mrc_workbench.models.llm.asking import EndpointError, KeptAnswers, ask_each
from mrc_workbench.models.llm.endpoint import Chat, Endpoint, without_thoughts


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
    """How questions are made. Raises `QuestionsError` if an option is out of its range.

    `model` is the name of a language model at its endpoint and stands in every question; the endpoint is stored
    nowhere.
    """

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
        """What `Question.made` says of their questions."""
        return made_by(self.by, self.model.strip())


Progress = Callable[[int, int], None]  # passages done, passages in all


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
    """The set, how many passages its questions are of, the passages without a usable question, and those not asked
    about."""

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
    on_progress: Progress | None = None,
) -> MadeQuestions:
    """Make questions of the passages of a set; those it has are not looked at.

    The same passages, options and stored answers give the same set. Equal questions are one, with the passages of all.
    Raises `QuestionsError` if no question comes, `EndpointError` if the language model cannot be asked; its answers
    until then are stored and used the next time.
    """
    tell, passages = on_progress or (lambda _done, _total: None), question_set.passages
    unanswered, left = list[Unanswered](), 0
    match options.by:
        case Maker.TITLE:
            drafts = list(_title_drafts(passages, options))
        case Maker.SENTENCE:
            drafts = _sentence_drafts(passages, options, tell)
        case Maker.MODEL:
            drafts, unanswered, left = _written_drafts(passages, options, endpoint, tell)
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
    if options.by is Maker.TITLE:
        return QuestionsError("no_titles", "no passage has a title that could ask for it")
    if options.by is Maker.SENTENCE:
        return QuestionsError("no_sentences", "no passage has a sentence to spare: they are too short, or repeat")
    if unanswered:
        first = unanswered[0].said
        return QuestionsError("nothing_usable", f"no answer held a list of questions; the first: {first}", first=first)
    return QuestionsError("nothing_written", "nothing was written yet: an endpoint is needed")


def _drawn(count: int, options: MakerOptions) -> list[int]:
    """Draw numbers below `count`, ascending; those drawn for fewer are among those for more, so a preview shows what
    comes."""
    numbers = np.random.default_rng(options.seed).permutation(count)
    return sorted(numbers[: options.most or count].tolist())


def _title_drafts(passages: Passages, options: MakerOptions) -> Iterator[_Draft]:
    # hidden: passages are trained on without titles, or a model would learn to compare two equal lines
    rows_of: defaultdict[str, list[int]] = defaultdict(list)
    for row, title in enumerate(passages.titles):
        if title.strip():
            rows_of[title.strip()].append(row)
    titles = list(rows_of)
    for number in _drawn(len(titles), options):
        for row in rows_of[titles[number]]:
            yield _Draft(titles[number], row, hidden=True)


_LETTER = regex.compile(r"\p{L}")
_LEAST_WORDS = 3
_LEAST_LETTERS = 0.6  # of its characters: what has fewer is a date, a table or a formula


def _sentence_drafts(passages: Passages, options: MakerOptions, on_progress: Progress) -> list[_Draft]:
    """Draw sentences of the passages, each passage by a lottery of its own: others change nothing for it.

    A sentence of several passages says little of any and is not drawn. A fraction `taken_out` is hidden, taken out of
    the passage in training; the others stay, so that equal words still count (Lee et al. 2019, section 5.1).
    """
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
    spaced = words >= _LEAST_WORDS or words == 1  # where words are not spaced, as in Japanese, there is one
    long_enough = options.shortest <= len(sentence) <= options.longest
    return long_enough and spaced and letters >= _LEAST_LETTERS * (len(sentence) - words + 1)


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


_LONGEST, _SHORTEST = 300, 4  # characters of a question
_MOST_LISTS = 50  # looked for in an answer
_NUMBERED = re.compile(r"^\s*(?:[-*•]|\(?\d{1,2}[.):])\s*")
_DECODER = json.JSONDecoder()


def questions_in(answer: str, most: int) -> list[str]:
    """Return up to `most` different questions of an answer.

    Takes the first JSON list of texts, wherever it stands, or lines that all end with a question mark.
    """
    text = without_thoughts(answer)
    lines = [_NUMBERED.sub("", line).strip().strip('"“”') for line in text.splitlines() if line.strip()]
    found = next(_lists(text), None) or (lines if all(line.endswith(("?", "？")) for line in lines) else [])
    usable = (" ".join(one.split()) for one in found)
    return list(dict.fromkeys(one for one in usable if _SHORTEST <= len(one) <= _LONGEST))[:most]


def _lists(text: str) -> Iterator[list[str]]:
    for place in (match.start() for match in islice(re.finditer(r"\[", text), _MOST_LISTS)):
        try:
            value, _ = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            continue
        if value and all(isinstance(one, str) for one in value):
            yield value


_LONGEST_PASSAGE = 8000  # characters that are sent
_SHOWN = 200  # characters of an answer that nothing could be made of


@cache
def prompts() -> dict[str, dict[str, str]]:
    """Return the prompts that come with the program, by language and name."""
    return tomllib.loads((Path(__file__).parent / "prompts.toml").read_text(encoding="utf-8"))


def _instruction_of(options: MakerOptions) -> str:
    wanted = options.prompt.strip() or prompts()[options.language]["instruction"].strip()
    return wanted.replace("{n}", str(options.per_passage))


def _written_drafts(
    passages: Passages, options: MakerOptions, endpoint: Endpoint | None, on_progress: Progress
) -> tuple[list[_Draft], list[Unanswered], int]:
    """Ask the model about the passages, several at a time; without an endpoint, take the stored answers.

    Returns the drafts, the passages without anything usable, and how many were not asked about.
    """
    # kept with one model, prompt and temperature, by passage
    key = key_of(options.model, _instruction_of(options), options.language, options.temperature)[:16]
    path = workspace() / "cache" / "questions" / f"{key}.jsonl"
    kept, rows = KeptAnswers(path, "passage", _questions_kept), _drawn(len(passages), options)
    new = [row for row in rows if kept.get(_key(passages[row])) is None]
    unanswered = list[Unanswered]()
    if endpoint and new:
        known, chat = len(rows) - len(new), Chat(endpoint, options.model, options.temperature)
        asked = {row: passages[row] for row in new}
        unanswered = _asked(chat, kept, options, asked, lambda done: on_progress(known + done, len(rows)))
    on_progress(len(rows), len(rows))
    drafts = [_Draft(question, row) for row in rows for question in kept.get(_key(passages[row])) or []]
    return drafts, unanswered, 0 if endpoint else len(new)


def _questions_kept(entry: dict[str, Any]) -> list[str]:
    if not isinstance(entry["questions"], list):
        raise TypeError("questions are a list")
    return [str(question) for question in entry["questions"]]


def _key(passage: Passage) -> str:
    return key_of(passage.title, passage.text)


def _asked(
    chat: Chat,
    kept: KeptAnswers[list[str]],
    options: MakerOptions,
    passages: Mapping[int, Passage],
    on_progress: Callable[[int], None],
) -> list[Unanswered]:
    """Ask about the passages by their rows, keep the questions, and return those of which none came."""
    instruction = _instruction_of(options)
    name = prompts().get(options.language, prompts()[PromptLanguage.ENGLISH])["title"]

    def ask(row: int) -> str:
        """Return an answer that holds no question, else nothing."""
        passage = passages[row]
        title = f"{name}: {passage.title}\n\n" if passage.title else ""
        answer = chat.answer(instruction, title + passage.text[:_LONGEST_PASSAGE])
        questions = questions_in(answer, options.per_passage)
        if not questions:
            return answer or " "
        kept.add(_key(passage), questions, {"questions": questions})
        return ""

    done, unanswered = 0, []
    with closing(ask_each([*passages], ask, options.concurrency)) as answers:
        for told in answers:
            if told is None:
                on_progress(done)
                continue
            done, (row, answer) = done + 1, told
            if isinstance(answer, EndpointError):
                unanswered.append(Unanswered(row, answer.code, str(answer), answer.details))
            elif answer:
                unanswered.append(Unanswered(row, "unusable", " ".join(answer.split())[:_SHOWN]))
    return sorted(unanswered, key=lambda one: one.row)
