"""Compare span extraction with transformers' question-answering pipeline: `python -m benchmarks reading`.

The pipeline is that of transformers 4, the last version that has it, installed into a temporary folder. As documented,
it processes one pair of question and passage at a time. `READER` is the model, a folder or a finished run; by default
the packaged base with a random head.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.synthetic_data import korquad
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.models.packaged import DEFAULT
from mrc_workbench.models.reader import SpanOptions, SpanReader, Spans
from mrc_workbench.models.sources import find_model

_PIPELINE = ("transformers==4.57.6", "huggingface_hub==0.36.0", "tokenizers==0.22.1")
_SCRIPT = Path(__file__).with_name("pipeline_script.py")
_PAIRS = 200
_ROUNDS = 3
_TARGET_SPEEDUP = 2.5
Pairs = list[tuple[str, str]]


def reading() -> list[str]:
    """Return a Markdown table: pairs per second of both, and the fraction of equal spans."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["MRC_WORKSPACE"] = str(folder)
        pairs = _pairs()
        model = _model(folder)
        with _Pipeline(folder, model, pairs) as pipeline:
            rounds = []
            for _ in range(_ROUNDS):
                reader = SpanReader(find_model(str(model)), options=SpanOptions(), new_head=True)
                reader.read(pairs[:1])
                began = perf_counter()
                spans = reader.read(pairs)
                ours = perf_counter() - began
                rounds.append((ours, pipeline.seconds()))
                same = _fraction_equal(pairs, spans, pipeline.spans())
    peer = f"{_PIPELINE[0].replace('==', ' ')} question-answering pipeline"
    result = peers.summarize_rounds(
        "Extractive question answering",
        peer,
        f"{_PAIRS:,} pairs",
        rounds,
        target=_TARGET_SPEEDUP,
        note=f"{same:.1%} of the answer spans are equal",
    )
    peers.save_results([result])
    return [
        "| | pairs per second |",
        "|---|---:|",
        f"| the pipeline | {_PAIRS / (result.theirs or 0):.2f} |",
        f"| ours | {_PAIRS / result.ours:.2f} |",
        "",
        f"{result.ratio:.2f} times as many; {same:.1%} of the answer spans are equal.",
    ]


def _pairs() -> Pairs:
    question_set = read_file(korquad()).question_set
    row_of = question_set.row_of_passage
    rows = np.random.default_rng(0).permutation(len(question_set.questions))[:_PAIRS]
    questions = [question_set.questions[row] for row in rows.tolist()]
    return [(question.text, question_set.passages.texts[row_of[question.relevant[0]]]) for question in questions]


def _model(folder: Path) -> Path:
    """Save the model with its (random) head, so that both load the same; returns its folder."""
    reader = SpanReader(find_model(os.environ.get("READER", DEFAULT.reference)), new_head=True)
    reader.model.save_pretrained(str(folder / "model"))
    return folder / "model"


def _fraction_equal(pairs: Pairs, spans: Spans, theirs: list[list[int]]) -> float:
    ours = zip(spans.starts[:, 0].tolist(), spans.ends[:, 0].tolist(), strict=True)
    aligned = zip(pairs, ours, theirs, strict=True)
    return float(np.mean([passage[a:b] == passage[c:d].strip() for (_, passage), (a, b), (c, d) in aligned]))


class _Pipeline:
    """The pipeline in a new process, which is idle while ours runs."""

    def __init__(self, folder: Path, model: Path, pairs: Pairs) -> None:
        self._folder = folder
        self._model = model
        (folder / "pairs.json").write_text(json.dumps(pairs), encoding="utf-8")

    def __enter__(self) -> "_Pipeline":
        libraries = self._folder / "libraries"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(libraries), *_PIPELINE]
        subprocess.run(pip, check=True)
        arguments = [str(self._model), str(self._folder / "pairs.json"), str(self._folder / "answers.json")]
        environment = {**os.environ, "PYTHONPATH": str(libraries)}
        self._process: Any = subprocess.Popen(
            [sys.executable, str(_SCRIPT), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=self._folder,
        )  # fmt: skip
        self._line()
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()

    def seconds(self) -> float:
        """Run the pipeline over all pairs; returns the seconds."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._line())

    def spans(self) -> list[list[int]]:
        """Return the start and end characters of the answers."""
        answer_spans: list[list[int]] = json.loads((self._folder / "answers.json").read_text(encoding="utf-8"))
        return answer_spans

    def _line(self) -> str:
        if not (line := str(self._process.stdout.readline())):
            raise RuntimeError("the pipeline ended")
        return line
