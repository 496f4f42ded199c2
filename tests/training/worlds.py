"""Small question sets with predictable trainings, and helpers that plan runs."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from mrc_workbench.data.jobs.folder import State, Status
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.store import save_question_set
from mrc_workbench.data.workspace import PROJECT
from mrc_workbench.models.sources import STARTER, ModelSource
from mrc_workbench.retrieval.lexical.bm25 import BM25
from mrc_workbench.training.jobs import SettingsSearch, all_jobs
from mrc_workbench.training.ranker_options import CROSS_ENCODER, SPARSE_ENCODER, CrossEncoderOptions
from mrc_workbench.training.recipes import RECIPES, ranking_kinds
from mrc_workbench.training.recipes.training_data import TrainingData
from mrc_workbench.training.runs import Run, create_run, new_plan
from mrc_workbench.training.text_options import READER
from mrc_workbench.training.train import load_training_data, train
from tests.tiny_models import SENTENCES, build_bi_encoder, build_cross_encoder_base, build_sparse_encoder

FROM_STARTERS = [kind for kind in ranking_kinds() if STARTER in RECIPES[kind].options.available_bases()]
CUE, *WORDS = [word.strip(".?") for word in " ".join(SENTENCES).split()]
# a batch of questions with three passages each, the relevant one first, and a teacher's scores
QUESTIONS = [SENTENCES[3], "도서관은 언제 문을 닫는가?", "한강은 어디로 흐르는가?"]
POSITIVES = [SENTENCES[1], SENTENCES[4], SENTENCES[1]]
NEGATIVES = [[SENTENCES[0], SENTENCES[2], SENTENCES[0]], [SENTENCES[4], SENTENCES[0], SENTENCES[2]]]
TEACHER = np.array([[4.0, 1.0, -2.5], [0.5, 0.75, -1.0], [7.0, -3.0, 2.0]], dtype=np.float32)
T = TypeVar("T")
_MODELS = tempfile.TemporaryDirectory()
# columns of the table of hard negatives
COLUMNS = ("question_id", "question", "positive", "positive_score", "passage_id", "title", "passage")
COLUMNS += ("rank", "score", "marked")


@dataclass(frozen=True)
class Trained:
    run: Run
    status: Status
    question_set: QuestionSet

    @property
    def data(self) -> TrainingData:
        return load_training_data(self.run.plan())


def misleading_set(n: int = 20, questions_a_passage: int = 1) -> QuestionSet:
    """Each question names a word of the next passage: only training can find the relevant one."""
    passages = [Passage(f"p{i}", f"topic{i} place{i} year{i} river{i}") for i in range(n)]
    words = ("year", "river", "place")[:questions_a_passage]
    questions = [Question(f"q{i}-{word}", f"{word}{(i + 1) % n}", (), (f"p{i}",)) for i in range(n) for word in words]
    return QuestionSet("misleading", tuple(passages), tuple(questions))


def shuffled(n_questions: int, n_passages: int) -> QuestionSet:
    """Random words that the tiny models know: the relevant passage can only be learned."""
    rng = np.random.default_rng(0)
    words = " ".join(SENTENCES).split()
    passages = tuple(Passage(f"p{n}", " ".join(rng.permutation(words)[:6])) for n in range(n_passages))
    texts = [" ".join(rng.permutation(words)[:3]) for _ in range(n_questions)]
    questions = tuple(Question(f"q{n}", text, (), (f"p{n}",)) for n, text in enumerate(texts))
    return QuestionSet("shuffled", passages, questions)


def cue_set(
    answered: int = 60, unanswerable: int = 0, *, words: int = 6, with_starts: bool = True, seed: int = 0
) -> QuestionSet:
    """One question per passage, the answered ones first: the answer is the word after a cue.

    Some passages have no cue. Each answered passage has its article, which also holds a passage without the cue.
    """
    rng = np.random.default_rng(seed)
    passages = []
    questions = []
    for number in range(answered + unanswerable):
        words_of_passage = rng.permutation(WORDS)[:words].tolist()
        if has_cue := number < answered:
            words_of_passage.insert(int(rng.integers(words)), CUE)
        question = Question(f"q{number}", " ".join([CUE, *rng.permutation(WORDS)[:2]]), rejected=(f"p{number}",))
        if has_cue:
            answer = words_of_passage[words_of_passage.index(CUE) + 1]
            start = len(" ".join(words_of_passage[: words_of_passage.index(CUE) + 1])) + 1
            starts = (start,) if with_starts else ()
            question = Question(question.id, question.text, (answer,), (f"p{number}",), starts=starts)
        passages.append(Passage(f"p{number}", " ".join(words_of_passage), f"article {number % answered}"))
        questions.append(question)
    return QuestionSet("cues", tuple(passages), tuple(questions))


def make_training_data(
    question_set: QuestionSet, split: SplitOptions | None = None, options: Any = None
) -> TrainingData:
    return TrainingData.from_question_set(question_set, split or SplitOptions(), options or CrossEncoderOptions())


def make_unsplit_data(question_set: QuestionSet) -> TrainingData:
    texts = question_set.passages.indexed_texts(title=True)
    is_trainable = np.ones(len(texts), dtype=bool)
    bm25 = BM25("BM25", question_set.passages)
    return TrainingData(question_set, question_set, question_set, is_trainable, texts, bm25)


@cache
def tiny_base(kind: str) -> str:
    """Build a tiny transformer that this kind of training can start from."""
    folder = Path(_MODELS.name) / kind
    if kind == SPARSE_ENCODER:
        return str(build_sparse_encoder(folder))
    if kind == CROSS_ENCODER:
        return str(build_cross_encoder_base(folder, segment_types=1))
    return str(build_bi_encoder(folder))


def get_base(kind: str) -> str:
    return STARTER if kind in FROM_STARTERS else tiny_base(kind)


def create_planned_run(kind: str, question_set: QuestionSet, split: SplitOptions | None = None, **options: Any) -> Run:
    base = options.get("base") or get_base(kind)
    run_options = replace(RECIPES[kind].options.defaults_for(base), **options)
    data = (save_question_set(question_set).key, question_set.name, question_set.fingerprint)
    return create_run(new_plan(kind, "test", data, split or SplitOptions(), run_options))


def created_reader(question_set: QuestionSet, **options: Any) -> Run:
    base = options.pop("base", get_base(READER))
    small = {"batch_size": 16, "learning_rate": 1e-3, "max_length": 32, "overlap": 8, "longest_answer": 4}
    small |= {"logging_steps": 1, "epochs": 1.0, "negative_question_fraction": 0.0}
    small["precision"] = "float32"  # fixed: on a busy machine, two processes might select different ones
    return create_planned_run(READER, question_set, SplitOptions(0.2, 0.2), base=base, **(small | options))


def in_workspace(folder: Path, do: Callable[[], T]) -> T:
    """Work in the workspace of a module fixture."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MRC_WORKSPACE", str(folder))
        return do()


def train_in(folder: Path, plan: Callable[[], Run]) -> Trained:
    from mrc_workbench.data.store import find

    def plan_and_train() -> Trained:
        run = plan()
        return Trained(run, train(run), find(run.plan().data))

    return in_workspace(folder, plan_and_train)


def train_to_end(run: Run) -> Run:
    assert train(run).state is State.DONE, run.status().message
    return run


def train_new_run(kind: str, question_set: QuestionSet, split: SplitOptions | None = None, **options: Any) -> Run:
    return train_to_end(create_planned_run(kind, question_set, split, **options))


def all_searches() -> list[SettingsSearch]:
    return [job for job in all_jobs() if isinstance(job, SettingsSearch)]


def make_source(run: Run) -> ModelSource:
    return ModelSource(run.id, folder=run.model_folder)


def load_checkpoint(run: Run, step: int, base: Any) -> Any:
    from safetensors.torch import load_file

    weights = load_file(run.folder / "checkpoints" / f"checkpoint-{step}" / "weights.safetensors")
    assert weights
    assert not base.load_state_dict(weights, strict=False).unexpected_keys
    return base.eval()


def read_logged(run: Run, name: str) -> list[float]:
    return [entry[name] for entry in run.progress() if name in entry]


def assert_same_tensors(
    actual: Mapping[str, Any], expected: Mapping[str, Any], *, rtol: float = 1e-4, atol: float = 1e-5
) -> None:
    import torch

    assert actual.keys() == expected.keys()
    for name, tensor in actual.items():
        torch.testing.assert_close(tensor, expected[name], rtol=rtol, atol=atol, msg=name)


def measures_of_ranks(ranks: Sequence[int]) -> dict[str, float]:
    """Return the measures of questions with one relevant passage each, which has these ranks; 0 if it is missing."""
    first_ten = [rank if rank <= 10 else 0 for rank in ranks]
    return {
        **{f"recall@{k}": float(np.mean([0 < rank <= k for rank in ranks])) for k in (1, 5, 10)},
        "mrr@10": float(np.mean([1 / rank if rank else 0 for rank in first_ten])),
        "ndcg@10": float(np.mean([1 / np.log2(rank + 1) if rank else 0 for rank in first_ten])),
    }


def log_softmax(scores: np.ndarray) -> np.ndarray:
    return np.asarray(scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)))


def run_python(*words: str, environment: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    settings: dict[str, Any] = {"cwd": PROJECT, "env": environment, "capture_output": True, "text": True}
    return subprocess.run([sys.executable, *words], **settings, check=False, timeout=600)


def wait_until(condition: Callable[[], bool], seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
