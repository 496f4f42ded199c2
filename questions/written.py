"""Questions that a language model writes of passages, read out of its answers: doc2query (Nogueira & Lin 2019)."""

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

from chat.asking import KeptAnswers, ask_each
from chat.endpoint import Chat, Endpoint, without_thoughts
from chat.problems import EndpointError
from data.cache import key_of
from data.records import Passage, Passages
from data.workspace import workspace
from questions.drafts import Draft, MakerOptions, Progress, PromptLanguage, drawn

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
    found = next(_lists(text), None) or _asking_lines(text)
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


def _asking_lines(text: str) -> list[str]:
    lines = [_NUMBERED.sub("", line).strip().strip('"“”') for line in text.splitlines() if line.strip()]
    return lines if all(line.endswith(("?", "？")) for line in lines) else []


_LONGEST_PASSAGE = 8000  # characters that are sent
_SHOWN = 200  # characters of an answer that nothing could be made of


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
    written, kept = Written(), _kept_questions(options)
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


def _kept_questions(options: MakerOptions) -> KeptAnswers[list[str]]:
    """The questions written so far with one model, prompt and temperature, by passage."""
    key = key_of(options.model, instruction_of(options), options.language, options.temperature)[:16]
    return KeptAnswers(workspace() / "cache" / "questions" / f"{key}.jsonl", "passage", _questions_kept)


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
