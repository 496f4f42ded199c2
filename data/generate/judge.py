"""A language model judges which passages answer a question, and how far it agrees with people.

Its verdicts are kept in `workspace/judgements/<fingerprint>.jsonl`, a line each as it comes, with the model's name:
they stand beside those of people and never for them. Models judge much like people on average and not always in the
single case (Faggioli et al. 2023): see what `agreement` says before you build on it.
"""

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mrc_workbench.data.cache import key_of
from mrc_workbench.data.generate import PromptLanguage, QuestionsError, prompts, unusable_answers
from mrc_workbench.data.questions.judgements import Judged, Verdict, path_of, verdicts_of
from mrc_workbench.data.records import Passage, composed
from mrc_workbench.data.workspace import require_room
from mrc_workbench.models.llm import Endpoint, EndpointError, KeptAnswers, lines_of, without_thoughts

_LONGEST_PASSAGE = 8000  # characters that are sent
_LONGEST_SAID, _SHOWN = 2000, 200  # characters of an answer: stored, and shown if it cannot be used
_BEFORE_VERDICT = " \t\r\n*_`\"'“”‘’「『([{"  # white space, Markdown emphasis, quotes and brackets
_AFTER_VERDICT = " \t\r\n*_`\"'“”‘’」』)]}.,:;!。"
_COPULAS = ("입니다", "이에요", "예요", "이다", "임")  # Korean for "it is", attached to the word
Verdicts = Mapping[tuple[str, str], Verdict]  # by the question as `composed` has it, and the passage's id


class ToJudge(NamedTuple):
    """A passage that may answer a question."""

    question: str
    passage: Passage


@dataclass(frozen=True)
class JudgeOptions:
    """Which model judges, in which language, how many passages at a time. Raises `QuestionsError`."""

    model: str
    language: PromptLanguage = PromptLanguage.KOREAN
    concurrency: int = 4

    def __post_init__(self) -> None:
        if not self.model.strip():
            raise QuestionsError("no_judge", "name the language model that is to judge")

    @property
    def instruction(self) -> str:
        return prompts()[self.language]["judge"].strip()


@dataclass(frozen=True)
class ModelJudged:
    """How many have a verdict by now, and how many got none: the first of these says why, or what was said instead."""

    judged: int
    failed: int = 0
    error: EndpointError | None = None
    said: str = ""


def judge_with_model(
    corpus: str,
    wanted: Sequence[ToJudge],
    options: JudgeOptions,
    endpoint: Endpoint,
    on_progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> ModelJudged:
    """Ask a model about each passage and store each verdict as it comes; the same request is not sent again.

    `on_progress` gets the number done and of all. Raises `EndpointError` if the endpoint will not answer others either,
    `LimitError` (`megabytes`), and `ValueError` if `corpus` is no fingerprint.
    """
    kept = KeptAnswers(path_of("judgements", corpus, ".jsonl"), "asked", _verdict)
    new = [one for one in wanted if kept.get(_key(one, options)) is None]
    known = len(wanted) - len(new)
    if new:
        require_room()
    from mrc_workbench.models.llm_connection import Chat  # imports the library

    chat = Chat(endpoint, options.model, temperature=0)

    def ask(one: ToJudge) -> str:
        """Return an answer that holds no verdict, else nothing."""
        said = chat.answer(options.instruction, asked_text(one, options.language))
        if (verdict := verdict_in(said)) is None:
            return said or " "
        entry = {"question": one.question, "passage": one.passage.id, "verdict": verdict, "said": said[:_LONGEST_SAID]}
        kept.add(_key(one, options), verdict, {"model": options.model, **entry})
        return ""

    failed = unusable_answers(new, ask, options.concurrency, lambda done: on_progress(known + done, len(wanted)))
    errors = [answer for _, answer in failed if isinstance(answer, EndpointError)]
    texts = [" ".join(answer.split())[:_SHOWN] for _, answer in failed if isinstance(answer, str)]
    return ModelJudged(len(wanted) - len(failed), len(failed), next(iter(errors), None), next(iter(texts), ""))


def asked_text(one: ToJudge, language: PromptLanguage) -> str:
    """Return what the model reads: passage and question, quoted so that no line passes for anything else."""
    words, passage = prompts()[language], one.passage
    title = f"{words['title']}: {passage.title}\n" if passage.title else ""
    quoted = "\n".join(f"> {line}" for line in (title + passage.text[:_LONGEST_PASSAGE]).splitlines())
    return f"{words['passage']}:\n{quoted}\n\n{words['question']}:\n> {composed(one.question)}"


def verdict_in(answer: str) -> Verdict | None:
    """Return the verdict of an answer that is exactly one verdict, else None.

    Case, full-width letters and the punctuation around the word do not matter, and one Korean copula may follow it. Any
    other word or sign makes the answer no verdict: "NOT RIGHT" and "≠ RIGHT" are not "RIGHT".
    """
    word = _without_punctuation(unicodedata.normalize("NFKC", without_thoughts(answer)).lower())
    for copula in _COPULAS:
        if word.endswith(copula):
            word = _without_punctuation(word.removesuffix(copula))
            break
    return Verdict(word) if word in set(Verdict) else None


def _without_punctuation(text: str) -> str:
    return text.lstrip(_BEFORE_VERDICT).rstrip(_AFTER_VERDICT)


def verdicts_of_models(corpus: str) -> dict[str, Verdicts]:
    """Return the readable verdicts by model, the latest of each. Raises `ValueError` if it is no fingerprint."""
    found: dict[str, dict[tuple[str, str], Verdict]] = {}
    for entry in lines_of(path_of("judgements", corpus, ".jsonl")):
        try:
            of, verdict = (composed(str(entry["question"])), str(entry["passage"])), _verdict(entry)
            found.setdefault(str(entry["model"]), {})[of] = verdict
        except (KeyError, TypeError, ValueError):
            continue
    return {**found}


def with_model(judged: Sequence[Judged], of_model: Verdicts) -> tuple[Judged, ...]:
    """Return what people judged, and what a model did where no person said anything: for a set that tells of both."""
    people, by_text = verdicts_of(judged), {composed(one.question): one for one in judged}
    for (question, passage), verdict in of_model.items():
        if (question, passage) not in people:
            by_text[question] = by_text.get(question, Judged(question, ())).judging(passage, verdict)
    return tuple(by_text.values())


@dataclass(frozen=True)
class Agreement:
    """A model's verdicts beside a person's. `kappa` is Cohen's (1960), None if both gave one and the same verdict."""

    both_right: int
    person_alone: int  # right by the person, wrong by the model
    model_alone: int
    both_wrong: int
    unsure: int
    kappa: float | None

    @property
    def judged(self) -> int:
        return self.both_right + self.person_alone + self.model_alone + self.both_wrong


def agreement(person: Verdicts, model: Verdicts) -> Agreement:
    """Hold a model's verdicts against a person's wherever both exist."""
    from sklearn.metrics import cohen_kappa_score

    both = [(person[pair], model[pair]) for pair in person.keys() & model.keys()]
    sure = [verdicts for verdicts in both if Verdict.UNSURE not in verdicts]
    right, wrong = Verdict.RIGHT, Verdict.WRONG
    differ = len({verdict for verdicts in sure for verdict in verdicts}) > 1  # else chance alone explains everything
    kappa = float(cohen_kappa_score(*zip(*sure, strict=True))) if differ else None
    return Agreement(
        both_right=sure.count((right, right)),
        person_alone=sure.count((right, wrong)),
        model_alone=sure.count((wrong, right)),
        both_wrong=sure.count((wrong, wrong)),
        unsure=len(both) - len(sure),
        kappa=kappa,
    )


def _verdict(entry: dict[str, Any]) -> Verdict:
    """Return the verdict of a stored line. Raises `ValueError` if the answer stored beside it is no such verdict."""
    verdict, answer = Verdict(entry["verdict"]), str(entry.get("said", ""))
    is_whole = 0 < len(answer) < _LONGEST_SAID
    if is_whole and verdict_in(answer) is not verdict:
        raise ValueError(f"{answer[:_SHOWN]!r} is not the verdict {verdict}")
    return verdict


def _key(one: ToJudge, options: JudgeOptions) -> str:
    """Whom it was asked of and all that was said: the passage's own text, too, of which ids tell nothing."""
    return key_of(options.model, options.instruction, one.passage.id, asked_text(one, options.language))[:32]
