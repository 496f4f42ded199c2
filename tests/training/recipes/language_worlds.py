"""Documents of a few repeated words, whose masked tokens are predictable."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.text.corpora import find_corpus
from mrc_workbench.training.runs import Run, create_run, new_plan
from mrc_workbench.training.text_options import LANGUAGE_MODEL, LanguageOptions

_FILES = TemporaryDirectory()
_FIRST = "가나다라마바사아"
_SECOND = "강님달말밤산"
WORDS = tuple(first + second for first in _FIRST for second in _SECOND)[:24]
_WORDS_PER_TOPIC = 3
SHARES = SplitOptions(0.2, 0.1)


def make_documents(count: int, seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    topics = np.array(WORDS).reshape(-1, _WORDS_PER_TOPIC)
    return [" ".join(rng.choice(topics[rng.integers(len(topics))], size=rng.integers(12, 25))) for _ in range(count)]


@cache
def text_file(count: int = 60, seed: int = 0) -> str:
    path = Path(_FILES.name) / f"topics-{count}-{seed}.txt"
    path.write_text("\n".join(make_documents(count, seed)), encoding="utf-8")
    return str(path)


def make_options(**changed: Any) -> LanguageOptions:
    small: dict[str, Any] = {"size": "tiny", "vocabulary": 1000, "max_length": 32, "batch_size": 8, "epochs": 1.0}
    small |= {"evaluation_limit": 40, "logging_steps": 1}
    small["precision"] = "float32"  # fixed: on a busy machine, two processes might select different ones
    return LanguageOptions(**(small | changed))


def create_language_run(data: str, **changed: Any) -> Run:
    corpus = find_corpus(data)
    data_reference = (data, corpus.name, corpus.fingerprint)
    return create_run(new_plan(LANGUAGE_MODEL, "test", data_reference, SHARES, make_options(**changed)))
