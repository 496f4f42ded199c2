"""Language models under torchrun: two processes learn what one does, and read the text once."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from language.masking import IGNORED
from tests.hub import build_bi_encoder, build_masked_base
from tests.training.language.worlds import text_file
from tests.training.test_several_processes import (
    LEARNING_RATE,
    TRAIN_ALL,
    assert_learnt_the_same,
    in_two_processes,
    trained,
    without_dropout,
)
from tests.training.worlds import logged
from training.__main__ import main
from training.language.material import HiddenTokens

pytestmark = pytest.mark.slow

DOCUMENTS = {"mlm": 33, "mlm-nsp": 54}  # 112 and 48 rows: none is left over
_drawn = HiddenTokens.batch


@pytest.fixture(scope="module")
def by_one_and_by_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders `one` and `two` with `mlm` and `mlm-nsp`, which go on from a base; `two/new` begins with nothing."""
    folder = tmp_path_factory.mktemp("language")
    bases = {"mlm": build_masked_base(folder / "roberta"), "mlm-nsp": build_bi_encoder(folder / "bert")}
    shares = ["--validation-share", "0.2", "--test-share", "0.1"]
    learning = ["--max-length", "32", "--batch-size", "16", "--epochs", "1", "--precision", "float32"]
    learning += ["--logging-steps", "1", "--learning-rate", str(LEARNING_RATE), *shares]

    def words(out: str, objective: str) -> list[str]:
        base = ["--base", str(without_dropout(bases[objective])), "--objective", objective]
        data = ["--data", text_file(DOCUMENTS[objective]), "--out", str(folder / out / objective)]
        return ["language-model", *data, *base, *learning]

    one, two = ([words(out, objective) for objective in bases] for out in ("one", "two"))
    # Unigram's training comes out otherwise each time
    new = ["language-model", "--data", text_file(100), "--out", str(folder / "two" / "new"), *learning]
    new += ["--tokenizer-kind", "unigram", "--vocabulary", "1000", "--size", "tiny"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MRC_WORKSPACE", str(folder / "workspace"))
        (folder / "train_all.py").write_text(TRAIN_ALL)
        in_two_processes(str(folder / "train_all.py"), json.dumps([new, *two]))
        patch.setattr(HiddenTokens, "batch", in_halves)
        for training in one:
            assert main(training) == 0
    return folder


def in_halves(hidden: HiddenTokens, rows: Sequence[int]) -> dict[str, np.ndarray]:
    """The batch that two processes make of these rows, each of its own half."""
    half = len(rows) // 2
    if not half:
        return _drawn(hidden, rows)
    parts = [_drawn(hidden, rows[:half]), _drawn(hidden, rows[half:])]
    width = max(part["labels"].shape[1] for part in parts)
    filled = {"labels": IGNORED, "input_ids": hidden.blocks.specials.pad}  # type: ignore[attr-defined]  # as both kinds have

    def padded(name: str, array: np.ndarray) -> np.ndarray:
        missing = width - array.shape[1] if name not in ("shares", "follows") else 0
        return np.pad(array, [(0, 0), (0, missing)], constant_values=filled.get(name, 0))

    return {name: np.concatenate([padded(name, part[name]) for part in parts]) for name in parts[0]}


@pytest.mark.parametrize("objective", DOCUMENTS)
def test_a_language_model_learns_by_two_what_it_does_by_one(objective: str, by_one_and_by_two: Path) -> None:
    one, two = (trained(by_one_and_by_two / out / objective) for out in ("one", "two"))
    assert two.provenance()["processes"] == {"count": 2, "negatives": "none"}
    assert len(logged(one, "loss")) == {"mlm": 7, "mlm-nsp": 3}[objective]
    assert_learnt_the_same(one, two)


def test_several_processes_train_one_tokenizer_and_cut_a_text_once(by_one_and_by_two: Path) -> None:
    new = trained(by_one_and_by_two / "two" / "new")
    cache = by_one_and_by_two / "workspace" / "cache"
    (tokenizer,) = (path for path in (cache / "tokenizers").iterdir() if path.is_dir())
    kept, saved = (
        dict(json.loads((one / "tokenizer.json").read_bytes())["model"]["vocab"])
        for one in (tokenizer, new.model_folder)
    )
    assert list(saved) == list(kept)
    assert saved == pytest.approx(kept, abs=1e-9), "of those that read and write it, the last digit"
    assert sum(path.is_dir() for path in (cache / "tokens").iterdir()) == 3, "of three trainings"
