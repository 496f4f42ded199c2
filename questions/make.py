"""The public way in: a corpus becomes a question set whose questions were made of its passages.

A language model can write them, and they are read out of its answers: doc2query (Nogueira & Lin 2019)."""

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from chat.asking import EndpointError, KeptAnswers, ask_each
from chat.endpoint import Chat, Endpoint, without_thoughts
from data.cache import key_of
from data.records import Maker, Passage, Passages, Question, QuestionSet
from data.workspace import workspace
from questions.drafts import (
    Draft,
    MakerOptions,
    Progress,
    PromptLanguage,
    QuestionsError,
    drawn,
    sentence_drafts,
    title_drafts,
)


@dataclass(frozen=True)
class Unanswered:
    """A passage of which no question came: why, a code of `made.` or `chat.` with its details, and what was said."""

    row: int
    code: str
    said: str
    details: dict[str, str | int] = field(default_factory=dict)


@dataclass
class Written:
    """What a language model wrote, and the passages it wrote nothing usable of."""

    drafts: list[Draft] = field(default_factory=list)
    unanswered: list[Unanswered] = field(default_factory=list)
    left: int = 0  # passages that were not asked about


@dataclass(frozen=True)
class MadeQuestions:
    """The set, of how many passages its questions are, and the passages a language model wrote nothing usable of.

    `left` passages were not asked about: there was no endpoint.
    """

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

    The same passages, options and, where a language model writes, kept answers give the same set. Equal questions are
    one, with the passages of all. Raises `QuestionsError` where no question comes, `EndpointError` where the language
    model cannot be asked; what it wrote until then is kept, and made use of the next time.
    """
    tell, passages = on_progress or (lambda _done, _total: None), question_set.passages
    written = Written()
    match options.by:
        case Maker.TITLE:
            drafts = list(title_drafts(passages, options))
        case Maker.SENTENCE:
            drafts = sentence_drafts(passages, options, tell)
        case Maker.MODEL:
            written = written_drafts(passages, options, endpoint, tell)
            drafts = written.drafts
    if not drafts:
        raise _nothing_made(options, written)
    made = QuestionSet(name or f"{question_set.name} · {options.made}", passages, _questions(drafts, passages, options))
    return MadeQuestions(made, len({draft.row for draft in drafts}), tuple(written.unanswered), written.left)


def _questions(drafts: list[Draft], passages: Passages, options: MakerOptions) -> tuple[Question, ...]:
    merged: dict[str, list[Draft]] = {}
    for draft in drafts:
        merged.setdefault(draft.text, []).append(draft)
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


def _nothing_made(options: MakerOptions, written: Written) -> QuestionsError:
    if options.by is Maker.TITLE:
        return QuestionsError("no_titles", "no passage has a title that could ask for it")
    if options.by is Maker.SENTENCE:
        return QuestionsError("no_sentences", "no passage has a sentence to spare: they are too short, or repeat")
    if written.unanswered:
        first = written.unanswered[0].said
        return QuestionsError("nothing_usable", f"no answer held a list of questions; the first: {first}", first=first)
    return QuestionsError("nothing_written", "nothing was written yet: an endpoint is needed")


_LONGEST, _SHORTEST = 300, 4  # characters of a question
_MOST_LISTS = 50  # looked for in an answer
_NUMBERED = re.compile(r"^\s*(?:[-*•]|\(?\d{1,2}[.):])\s*")
_DECODER = json.JSONDecoder()


def questions_in(answer: str, most: int) -> list[str]:
    """Return up to `most` different questions of an answer; none where it holds no list of them.

    Takes the first JSON list of texts, wherever it stands (some models say more than they were told to), or lines of
    which every one ends with a question mark once its number is taken away.
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
    """Return the prompts that come with the program, by language: `instruction`, and what stands before a title."""
    return tomllib.loads((Path(__file__).parent / "prompts.toml").read_text(encoding="utf-8"))


def instruction_of(options: MakerOptions) -> str:
    """Return what the model is told before it reads a passage."""
    wanted = options.prompt.strip() or prompts()[options.language]["instruction"].strip()
    return wanted.replace("{n}", str(options.per_passage))


def written_drafts(
    passages: Passages, options: MakerOptions, endpoint: Endpoint | None, on_progress: Progress
) -> Written:
    """Ask the model about the passages, several at a time; without an endpoint, take what was written before.

    Each answer is kept as it comes, and a passage is not asked about again, whoever stops this. Raises `EndpointError`
    where the endpoint will not answer others either.
    """
    # kept with one model, prompt and temperature, by passage
    key = key_of(options.model, instruction_of(options), options.language, options.temperature)[:16]
    path = workspace() / "cache" / "questions" / f"{key}.jsonl"
    written, kept = Written(), KeptAnswers(path, "passage", _questions_kept)
    rows = drawn(len(passages), options.most, options.seed)
    new = [row for row in rows if kept.get(_key(passages[row])) is None]
    if endpoint is None:
        written.left = len(new)
    elif new:
        known = len(rows) - len(new)
        chat = Chat(endpoint, options.model, options.temperature)
        written.unanswered = _asked(
            chat,
            kept=kept,
            options=options,
            passages=passages,
            rows=new,
            on_progress=lambda done: on_progress(known + done, len(rows)),
        )
    on_progress(len(rows), len(rows))
    for row in rows:
        written.drafts += [Draft(question, row) for question in kept.get(_key(passages[row])) or []]
    return written


def _questions_kept(entry: dict[str, Any]) -> list[str]:
    if not isinstance(entry["questions"], list):
        raise TypeError("questions are a list")
    return [str(question) for question in entry["questions"]]


def _key(passage: Passage) -> str:
    return key_of(passage.title, passage.text)


def _asked(
    chat: Chat,
    *,
    kept: KeptAnswers[list[str]],
    options: MakerOptions,
    passages: Passages,
    rows: Sequence[int],
    on_progress: Callable[[int], None],
) -> list[Unanswered]:
    """Ask about the rows, keep the questions, and return the rows of which none came."""
    instruction = instruction_of(options)
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
    with closing(ask_each(rows, ask, options.concurrency)) as answers:
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
