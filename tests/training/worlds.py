"""Question sets whose training can be followed by hand, and short ways to plan a run."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.store import keep
from mrc_workbench.data.workspace import PROJECT
from mrc_workbench.models.encoders import BiEncoder
from mrc_workbench.models.sources import STARTER, ModelSource
from mrc_workbench.retrieval.lexical.bm25 import BM25
from mrc_workbench.training.jobs import Search, all_jobs
from mrc_workbench.training.ranker_options import LATE_INTERACTION, BiEncoderOptions, CrossEncoderOptions
from mrc_workbench.training.recipes import RECIPES, ranking_kinds
from mrc_workbench.training.recipes.material import Material
from mrc_workbench.training.runs import Run, create_run, new_plan
from mrc_workbench.training.text_options import READER
from mrc_workbench.training.train import load_material, train
from tests.tiny_models import SENTENCES, build_bi_encoder, build_sparse_encoder

FROM_STARTERS = [kind for kind in ranking_kinds() if STARTER in RECIPES[kind].options.offered()]
CUE, *WORDS = [word.strip(".?") for word in " ".join(SENTENCES).split()]
T = TypeVar("T")
_MODELS = tempfile.TemporaryDirectory()
# of the table of hard negatives
COLUMNS = ("question_id", "question", "positive", "positive_score", "passage_id", "title", "passage")
COLUMNS += ("rank", "score", "marked")


@dataclass(frozen=True)
class Trained:
    run: Run
    status: Status
    question_set: QuestionSet

    @property
    def material(self) -> Material:
        return load_material(self.run.plan())


def misleading_set(n: int = 20, questions_a_passage: int = 1) -> QuestionSet:
    """Every question names a word of the next passage only: what is to be learned is in no text."""
    passages = [Passage(f"p{i}", f"topic{i} place{i} year{i} river{i}") for i in range(n)]
    words = ("year", "river", "place")[:questions_a_passage]
    questions = [Question(f"q{i}-{word}", f"{word}{(i + 1) % n}", (), (f"p{i}",)) for i in range(n) for word in words]
    return QuestionSet("misleading", tuple(passages), tuple(questions))


def shuffled(n_questions: int, n_passages: int) -> QuestionSet:
    """Words that the tiny models know, by chance: what passage a question is about can only be learned."""
    rng = np.random.default_rng(0)
    words = " ".join(SENTENCES).split()
    passages = tuple(Passage(f"p{n}", " ".join(rng.permutation(words)[:6])) for n in range(n_passages))
    questions = tuple(
        Question(f"q{n}", " ".join(rng.permutation(words)[:3]), (), (f"p{n}",)) for n in range(n_questions)
    )
    return QuestionSet("shuffled", passages, questions)


def cue_set(
    answered: int = 60, unanswerable: int = 0, *, words: int = 6, told: bool = True, seed: int = 0
) -> QuestionSet:
    """One question about each passage, the answered ones first: the answer is the word after a cue.

    `told` is where an answer begins. Some passages have no cue.

    Every answered passage is an article of its own, and one without the cue belongs to the article of an answered one.
    """
    rng = np.random.default_rng(seed)
    passages, questions = [], []
    for number in range(answered + unanswerable):
        said = rng.permutation(WORDS)[:words].tolist()
        if has_cue := number < answered:
            said.insert(int(rng.integers(words)), CUE)
        asked = Question(f"q{number}", " ".join([CUE, *rng.permutation(WORDS)[:2]]), rejected=(f"p{number}",))
        if has_cue:
            answer = said[said.index(CUE) + 1]
            start = len(" ".join(said[: said.index(CUE) + 1])) + 1
            starts = (start,) if told else ()
            asked = Question(asked.id, asked.text, (answer,), (f"p{number}",), starts=starts)
        passages.append(Passage(f"p{number}", " ".join(said), f"article {number % answered}"))
        questions.append(asked)
    return QuestionSet("cues", tuple(passages), tuple(questions))


def material_of(
    question_set: QuestionSet,
    split: SplitOptions | None = None,
    options: BiEncoderOptions | CrossEncoderOptions | None = None,
) -> Material:
    return Material.of(question_set, split or SplitOptions(), options or CrossEncoderOptions())


def whole(question_set: QuestionSet) -> Material:
    """All questions to learn from, and the same to measure on."""
    texts = question_set.passages.indexed_texts(title=True)
    learnable = np.ones(len(texts), dtype=bool)
    return Material(question_set, question_set, question_set, learnable, texts, BM25("BM25", question_set.passages))


@cache
def base_of(kind: str) -> str:
    """The starter, or a tiny model for a kind that cannot begin there."""
    if kind in FROM_STARTERS:
        return STARTER
    if kind in (READER, LATE_INTERACTION):
        return str(build_bi_encoder(Path(_MODELS.name) / "transformer"))
    return str(build_sparse_encoder(Path(_MODELS.name) / "sparse"))


def planned(kind: str, question_set: QuestionSet, split: SplitOptions | None = None, **options: Any) -> Run:
    """A run in the workspace, with options that suit the starter, or a tiny model, where none are named."""
    base = options.get("base") or base_of(kind)
    chosen = replace(RECIPES[kind].options.suited_to(base), **options)
    data = (keep(question_set).key, question_set.name, question_set.fingerprint)
    return create_run(new_plan(kind, "test", data, split or SplitOptions(), chosen))


def created_reader(question_set: QuestionSet, **options: Any) -> Run:
    """A run of a reader, in the workspace, that is done in seconds."""
    base = options.pop("base", base_of(READER))
    small = {"batch_size": 16, "learning_rate": 1e-3, "max_length": 32, "overlap": 8, "longest_answer": 4}
    small |= {"logging_steps": 1, "epochs": 1.0, "negatives_share": 0.0}
    small["precision"] = "float32"  # told, not tried: on a busy machine two processes may find another one quicker
    return planned(READER, question_set, SplitOptions(0.2, 0.2), base=base, **(small | options))


def within(folder: Path, do: Callable[[], T]) -> T:
    """What is done in the workspace of a fixture that lives longer than a test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MRC_WORKSPACE", str(folder))
        return do()


def trained_in(folder: Path, plan: Callable[[], Run]) -> Trained:
    from mrc_workbench.data.store import find

    def carried_out() -> Trained:
        run = plan()
        return Trained(run, train(run), find(run.plan().data))

    return within(folder, carried_out)


def trained(run: Run) -> Run:
    """The run, carried out to its end in this process."""
    assert train(run).state is State.DONE, run.status().message
    return run


def all_searches() -> list[Search]:
    return [job for job in all_jobs() if isinstance(job, Search)]


def source_of(run: Run) -> ModelSource:
    return ModelSource(run.id, folder=run.model_folder)


def at_checkpoint(run: Run, step: int, base: Any) -> Any:
    """The base's model with the weights that the run's checkpoint of this step holds."""
    from safetensors.torch import load_file

    trained = load_file(run.folder / "checkpoints" / f"checkpoint-{step}" / "weights.safetensors")
    assert trained
    assert not base.load_state_dict(trained, strict=False).unexpected_keys
    return base.eval()


def logged(run: Run, name: str) -> list[float]:
    return [entry[name] for entry in run.progress() if name in entry]


def margin_loss(base: ModelSource, material: Material, options: BiEncoderOptions) -> float:
    """Wieting & Gimpel's loss of all training questions, each against every passage that is asked about."""
    encoder = BiEncoder(base, material.texts)
    questions, positives = material.positive_pairs()
    asked = [material.train.questions[row].text for row in questions]
    passages = sorted(set(positives.tolist()))
    texts = [material.texts[row] for row in passages]
    cosines = encoder.encode_questions(asked) @ encoder.encode_passages(texts).T
    losses = []
    for row, passage in enumerate(positives.tolist()):
        own = passages.index(passage)
        hardest = max(cosine for column, cosine in enumerate(cosines[row]) if column != own)
        too_far = max(0.0, options.positive_margin - cosines[row, own])
        losses.append(too_far + max(0.0, hardest - options.negative_margin))
    return float(np.mean(losses))


def python(*words: str, environment: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Run Python anew, in the project's folder and just this environment."""
    told: dict[str, Any] = {"cwd": PROJECT, "env": environment, "capture_output": True, "text": True}
    return subprocess.run([sys.executable, *words], **told, check=False, timeout=600)


def wait_until(happened: Callable[[], bool], seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
