"""A language model judges which passages answer a question; its agreement with people is measured.

`workspace/judgements/<fingerprint>.jsonl` stores a line per verdict with the model's name, next to the verdicts of
people, which it never replaces. Models agree with people on average, but not in every case (Faggioli et al. 2023):
check `measure_agreement` first.
"""

import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mrc_workbench.data.cache import key_of
from mrc_workbench.data.files import current_names
from mrc_workbench.data.generate import PromptLanguage, QuestionsError, collect_failures, prompts
from mrc_workbench.data.questions.judgements import JudgedQuestion, RelevanceVerdict, annotation_path, collect_verdicts
from mrc_workbench.data.records import Passage, composed
from mrc_workbench.data.workspace import require_storage
from mrc_workbench.models.llm import Endpoint, EndpointError, StoredAnswers, read_json_lines, remove_thoughts

_MAX_PASSAGE_LENGTH = 8000  # characters that are sent
# characters of an answer
_MAX_STORED_LENGTH = 2000
_MAX_EXCERPT_LENGTH = 200
_BEFORE_VERDICT = " \t\r\n*_`\"'“”‘’「『([{"  # white space, Markdown emphasis, quotes and brackets
_AFTER_VERDICT = " \t\r\n*_`\"'“”‘’」』)]}.,:;!。"
_COPULAS = ("입니다", "이에요", "예요", "이다", "임")  # Korean for "it is", attached to the word
_EARLIER_NAMES = {"asked": "request", "said": "answer"}  # of the keys of a line
Verdicts = Mapping[tuple[str, str], RelevanceVerdict]  # by the `composed` question and the passage's id


class JudgementRequest(NamedTuple):
    """A passage that may answer a question."""

    question: str
    passage: Passage


@dataclass(frozen=True)
class JudgeOptions:
    """The judging model, the language of its prompt, and its parallel requests. Raises `QuestionsError`."""

    model: str
    language: PromptLanguage = PromptLanguage.KOREAN
    concurrency: int = 4

    def __post_init__(self) -> None:
        if not self.model.strip():
            raise QuestionsError("no_judge", "name the language model that judges")

    @property
    def instruction(self) -> str:
        return prompts()[self.language]["judge"].strip()


@dataclass(frozen=True)
class JudgingResult:
    """The numbers of passages with and without a verdict, and the first error or unusable answer."""

    judged_count: int
    failed_count: int = 0
    error: EndpointError | None = None
    answer_excerpt: str = ""


def judge_with_model(
    corpus: str,
    requests: Sequence[JudgementRequest],
    options: JudgeOptions,
    endpoint: Endpoint,
    on_progress: Callable[[int, int], None] = lambda _done, _all: None,
) -> JudgingResult:
    """Ask a model about each passage and store each verdict at once; no request is sent twice.

    `on_progress` gets the number of finished and of all requests. Raises `EndpointError` if the endpoint is not
    available, `LimitError` (`megabytes`), and `ValueError` if `corpus` is no fingerprint.
    """
    path = annotation_path("judgements", corpus, ".jsonl")
    stored_verdicts = StoredAnswers(path, "request", _stored_verdict, _EARLIER_NAMES)
    new = [candidate for candidate in requests if stored_verdicts.get(_request_key(candidate, options)) is None]
    known = len(requests) - len(new)
    if new:
        require_storage()
    from mrc_workbench.models.llm_connection import Chat  # imports the library

    chat = Chat(endpoint, options.model, temperature=0)

    def ask(request: JudgementRequest) -> str:
        """Return an answer without a verdict, else ""."""
        answer = chat.answer(options.instruction, prompt_text(request, options.language))
        if (verdict := parse_verdict(answer)) is None:
            return answer or " "
        entry = {"model": options.model, "question": request.question, "passage": request.passage.id}
        entry |= {"verdict": verdict, "answer": answer[:_MAX_STORED_LENGTH]}
        stored_verdicts.add(_request_key(request, options), verdict, entry)
        return ""

    failed = collect_failures(new, ask, options.concurrency, lambda done: on_progress(known + done, len(requests)))
    errors = [answer for _, answer in failed if isinstance(answer, EndpointError)]
    texts = [" ".join(answer.split())[:_MAX_EXCERPT_LENGTH] for _, answer in failed if isinstance(answer, str)]
    return JudgingResult(len(requests) - len(failed), len(failed), next(iter(errors), None), next(iter(texts), ""))


def prompt_text(request: JudgementRequest, language: PromptLanguage) -> str:
    """Return the prompt with passage and question, quoted so that none of their lines is an instruction."""
    words = prompts()[language]
    passage = request.passage
    title = f"{words['title']}: {passage.title}\n" if passage.title else ""
    quoted = "\n".join(f"> {line}" for line in (title + passage.text[:_MAX_PASSAGE_LENGTH]).splitlines())
    return f"{words['passage']}:\n{quoted}\n\n{words['question']}:\n> {composed(request.question)}"


def parse_verdict(answer: str) -> RelevanceVerdict | None:
    """Return the verdict of an answer that consists of a single verdict, else None.

    Case, full-width letters and surrounding punctuation are ignored, and a Korean copula may follow. With any other
    word or sign the answer is no verdict: "NOT RIGHT" and "≠ RIGHT" are not "RIGHT".
    """
    word = _strip_punctuation(unicodedata.normalize("NFKC", remove_thoughts(answer)).lower())
    for copula in _COPULAS:
        if word.endswith(copula):
            word = _strip_punctuation(word.removesuffix(copula))
            break
    return RelevanceVerdict(word) if word in set(RelevanceVerdict) else None


def _strip_punctuation(text: str) -> str:
    return text.lstrip(_BEFORE_VERDICT).rstrip(_AFTER_VERDICT)


def load_model_verdicts(corpus: str) -> dict[str, Verdicts]:
    """Return the latest readable verdicts by model. Raises `ValueError` if `corpus` is no fingerprint."""
    verdicts_by_model: dict[str, dict[tuple[str, str], RelevanceVerdict]] = {}
    for line in read_json_lines(annotation_path("judgements", corpus, ".jsonl")):
        entry = current_names(line, _EARLIER_NAMES, "judgements")
        try:
            pair = (composed(str(entry["question"])), str(entry["passage"]))
            verdicts_by_model.setdefault(str(entry["model"]), {})[pair] = _stored_verdict(entry)
        except (KeyError, TypeError, ValueError):
            continue
    return {**verdicts_by_model}


def add_model_verdicts(judged: Sequence[JudgedQuestion], model_verdicts: Verdicts) -> tuple[JudgedQuestion, ...]:
    """Return the judgements of people, with a model's verdicts for passages that no person judged."""
    person_verdicts = collect_verdicts(judged)
    by_text = {composed(entry.question): entry for entry in judged}
    for (question, passage), verdict in model_verdicts.items():
        if (question, passage) not in person_verdicts:
            by_text[question] = by_text.get(question, JudgedQuestion(question, ())).with_verdict(passage, verdict)
    return tuple(by_text.values())


@dataclass(frozen=True)
class Agreement:
    """A model's verdicts compared with a person's. `kappa` is Cohen's (1960), None if all verdicts are equal."""

    both_right: int
    person_alone: int  # right by the person, wrong by the model
    model_alone: int
    both_wrong: int
    unsure: int
    kappa: float | None

    @property
    def judged_count(self) -> int:
        return self.both_right + self.person_alone + self.model_alone + self.both_wrong


def measure_agreement(person: Verdicts, model: Verdicts) -> Agreement:
    """Compare a model's verdicts with a person's for the passages that both judged."""
    from sklearn.metrics import cohen_kappa_score

    both = [(person[pair], model[pair]) for pair in person.keys() & model.keys()]
    sure = [verdicts for verdicts in both if RelevanceVerdict.UNSURE not in verdicts]
    right = RelevanceVerdict.RIGHT
    wrong = RelevanceVerdict.WRONG
    differ = len({verdict for verdicts in sure for verdict in verdicts}) > 1  # else kappa is not defined
    kappa = float(cohen_kappa_score(*zip(*sure, strict=True))) if differ else None
    return Agreement(
        both_right=sure.count((right, right)),
        person_alone=sure.count((right, wrong)),
        model_alone=sure.count((wrong, right)),
        both_wrong=sure.count((wrong, wrong)),
        unsure=len(both) - len(sure),
        kappa=kappa,
    )


def _stored_verdict(entry: dict[str, Any]) -> RelevanceVerdict:
    """Return the verdict of a stored line. Raises `ValueError` if the stored answer is another verdict."""
    verdict = RelevanceVerdict(entry["verdict"])
    answer = str(entry.get("answer", ""))
    is_whole = 0 < len(answer) < _MAX_STORED_LENGTH
    if is_whole and parse_verdict(answer) is not verdict:
        raise ValueError(f"{answer[:_MAX_EXCERPT_LENGTH]!r} is not the verdict {verdict}")
    return verdict


def _request_key(request: JudgementRequest, options: JudgeOptions) -> str:
    """Return a key of the model, its instruction, and the texts of question and passage, which ids do not identify."""
    return key_of(options.model, options.instruction, request.passage.id, prompt_text(request, options.language))[:32]
