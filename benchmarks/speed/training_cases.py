"""What the benchmarks of training train: the packaged base as a bi-encoder and a cross-encoder, a random base size."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.material import bi_encoder, korquad
from benchmarks.quality.article_split import SPLIT
from benchmarks.speed.training_turns import PLAIN, Took, Turn, options_of
from data.read import read_file
from data.records import QuestionSet
from models.packaged import DEFAULT
from training.options.bi_encoder import BI_ENCODER
from training.options.cross_encoder import CROSS_ENCODER
from training.rankers.examples import cross_encoder_examples, encoder_examples
from training.rankers.material import Material

RANDOM_LENGTH = 128  # tokens, as KR-SBERT reads


@dataclass(frozen=True)
class Case:
    """A training: what it is called, and the turn that ours takes."""

    name: str
    turn: Turn


@contextmanager
def cases(batch_size: int = 32) -> Iterator[list[Case]]:
    """Write bases and examples to a workspace of their own, there within the block."""
    with TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        question_set = read_file(korquad()).question_set
        DEFAULT.write()
        texts = [passage.text for passage in question_set.passages]
        random = str(bi_encoder(Path(folder, "base"), texts, RANDOM_LENGTH, forgets=True))
        made = [
            Case("bi-encoder, packaged base", Turn(BI_ENCODER, DEFAULT.reference, "ours", "", batch_size)),
            Case("cross-encoder, packaged base", Turn(CROSS_ENCODER, DEFAULT.reference, "ours", "", batch_size)),
            Case("bi-encoder, BERT of base size", Turn(BI_ENCODER, random, "ours", "", batch_size)),
        ]
        files = {kind: _examples(kind, question_set, Path(folder)) for kind in (BI_ENCODER, CROSS_ENCODER)}
        yield [Case(one.name, Turn(**{**asdict(one.turn), "columns": files[one.turn.kind]})) for one in made]


def taken(turn: Turn, **changed: Any) -> Took | None:
    """Take a turn in a fresh process; None where its memory does not suffice."""
    words = {**asdict(turn), **changed}
    if words["side"] == PLAIN and words["base"] == DEFAULT.reference:
        words["base"] = str(DEFAULT.folder)
    command = [sys.executable, "-m", "benchmarks.speed.training_turns", json.dumps(words)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return Took(**found) if found else None


def _examples(kind: str, question_set: QuestionSet, folder: Path) -> str:
    """What a plain script would read: the examples that ours makes."""
    options: Any = options_of(Turn(kind, DEFAULT.reference, "ours", ""))
    material = Material.of(question_set, SPLIT, options)
    columns, _ = (encoder_examples if kind == BI_ENCODER else cross_encoder_examples)(options, material)
    path = folder / f"{kind}.json"
    path.write_text(json.dumps(columns), encoding="utf-8")
    return str(path)
