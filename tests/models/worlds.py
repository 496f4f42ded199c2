"""Small models, and a subprocess with a separate environment."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from mrc_workbench.data.workspace import PROJECT, USER
from mrc_workbench.models.encoders import BiEncoder, CrossEncoderScorer, SparseTextEncoder
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.loading import load_bi_encoder
from mrc_workbench.models.sources import find_model
from tests.tiny_models import SENTENCES

Ask = Callable[..., tuple[Any, float]]
ANSWERS = f"""
import json, os, sys, time
import sentence_transformers
from mrc_workbench.models.files import ModelError
from tests.models.worlds import computed
for line in sys.stdin:
    kind, name, os.environ["{USER}"], os.environ["MRC_WORKSPACE"] = json.loads(line)
    start = time.perf_counter()
    try:
        found = computed(kind, name).tolist()
    except ModelError as error:
        found = error.code
    print(json.dumps([found, time.perf_counter() - start]), flush=True)
"""


def write_config(folder: Path, content: str = "{}") -> Path:
    """Write the configuration by which a folder is a model's."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(content, encoding="utf-8")
    return folder


def sharpened(folder: Path) -> Path:
    """Make the layers' weights ten times as large: else all pairs of random words have nearly the same score."""
    weights = load_file(folder / "model.safetensors")
    large = {name: 10 * weight if "layer" in name and weight.ndim == 2 else weight for name, weight in weights.items()}
    save_file(large, folder / "model.safetensors", {"format": "pt"})
    return folder


def damaged(folder: Path, copy_folder: Path, number: float = np.nan) -> Path:
    shutil.copytree(folder, copy_folder)
    for path in copy_folder.rglob("*.safetensors"):
        weights = {name: np.full_like(weight, number) for name, weight in load_file(path).items()}
        save_file(weights, path, {"format": "pt"})
    return copy_folder


def computed(kind: str, name: str) -> np.ndarray:
    """Return a model's outputs for the sentences, if any. Raises `ModelError`."""
    source = find_model(name)
    match kind:
        case "vectors":
            return BiEncoder(source, []).encode_passages(SENTENCES)
        case "scores":
            return CrossEncoderScorer(source, []).score([(SENTENCES[0], text) for text in SENTENCES])
        case "terms":
            return SparseTextEncoder(source, [], precision=Precision.FLOAT32).encode_passages(SENTENCES).toarray()
    load_bi_encoder(source, [])
    return np.zeros(0)


@contextmanager
def model_process(environment: dict[str, str]) -> Iterator[Ask]:
    """Start a process; yield a function that returns its results or error codes, and seconds."""
    command = [sys.executable, "-c", ANSWERS]
    with Popen(command, cwd=PROJECT, env=environment, stdin=PIPE, stdout=PIPE, text=True) as process:

        def ask(kind: str, name: str, *, user: str = "", workspace: Path) -> tuple[Any, float]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps([kind, name, user, str(workspace)]) + "\n")
            process.stdin.flush()
            result, seconds = json.loads(process.stdout.readline())
            return result, seconds

        try:
            yield ask
        finally:
            process.kill()
