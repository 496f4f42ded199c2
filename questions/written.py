"""Questions that a language model writes of passages: doc2query (Nogueira & Lin 2019), and reading them out of its answers."""

import json
import re
import tomllib
from collections.abc import Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path

from chat.endpoint import Chat, Endpoint, without_thoughts
from chat.problems import EndpointError
from data.records import Passage, Passages
from questions.drafts import Draft, MakerOptions, Progress, PromptLanguage, drawn
from questions.kept_answers import KeptAnswers

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
_FAILED_IN_A_ROW = 8  # then the endpoint itself is at fault
_SECONDS_BETWEEN_WORDS = 0.5  # a page can be stopped while all wait for answers


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
    instruction, written = instruction_of(options), Written()
    kept = KeptAnswers(options.model, instruction, options.language, options.temperature)
    rows = drawn(len(passages), options.most, options.seed)
    new = [row for row in rows if kept.get(passages[row].title, passages[row].text) is None]
    if endpoint is None:
        written.left = len(new)
    elif new:
        chat = Chat(endpoint, options.model, options.temperature)
        asking = _Asking(chat, kept, options, instruction)
        with closing(asking.asked(passages, new, on_progress, len(rows))) as failed:
            written.unanswered = sorted(failed, key=lambda one: one.row)
    on_progress(len(rows), len(rows))
    for row in rows:
        questions = kept.get(passages[row].title, passages[row].text) or []
        written.drafts += [Draft(question, row) for question in questions]
    return written


@dataclass(frozen=True)
class _Asking:
    chat: Chat
    kept: KeptAnswers
    options: MakerOptions
    instruction: str

    def asked(self, passages: Passages, rows: list[int], on_progress: Progress, total: int) -> Generator[Unanswered]:
        """Ask about the rows, and yield those of which no question came. Left early, it starts no further call."""
        pool = ThreadPoolExecutor(self.options.concurrency)
        waiting: dict[Future[str], int] = {}
        left, known, done, in_a_row = iter(rows), total - len(rows), 0, 0
        try:
            while done < len(rows):
                for row in left:
                    waiting[pool.submit(self._ask, passages[row])] = row
                    if len(waiting) >= 2 * self.options.concurrency:
                        break
                on_progress(known + done, total)
                for future in wait(waiting, _SECONDS_BETWEEN_WORDS, FIRST_COMPLETED).done:
                    row, done = waiting.pop(future), done + 1
                    failure = _unanswered(row, future)
                    in_a_row = in_a_row + 1 if failure and failure.code != "unusable" else 0
                    if in_a_row == _FAILED_IN_A_ROW:
                        future.result()  # raises
                    if failure:
                        yield failure
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self, passage: Passage) -> str:
        """Ask about a passage and keep the questions; returns an answer that holds none, else nothing."""
        name = prompts().get(self.options.language, prompts()[PromptLanguage.ENGLISH])["title"]
        title = f"{name}: {passage.title}\n\n" if passage.title else ""
        answer = self.chat.answer(self.instruction, title + passage.text[:_LONGEST_PASSAGE])
        questions = questions_in(answer, self.options.per_passage)
        if not questions:
            return answer or " "
        self.kept.add(passage.title, passage.text, questions)
        return ""


def _unanswered(row: int, future: "Future[str]") -> Unanswered | None:
    """Return why no question came of a passage. Raises what ends the work."""
    try:
        answer = future.result()
    except EndpointError as error:
        if error.ends:
            raise
        return Unanswered(row, error.code, str(error), error.details)
    return Unanswered(row, "unusable", " ".join(answer.split())[:_SHOWN]) if answer else None
