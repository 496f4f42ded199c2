"""On the same batches without dropout, our trainer has the losses of the library's trainer."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.speed.timed_training import (
    LIBRARY,
    OURS,
    TrainingSetup,
    library_trainer,
    options_of,
    project_trainer,
    train_timed,
)
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.training.ranker_options import BI_ENCODER, CROSS_ENCODER
from mrc_workbench.training.recipes.examples import cross_encoder_examples, encoder_examples
from mrc_workbench.training.recipes.training_data import TrainingData
from tests.tiny_models import build_bi_encoder, build_cross_encoder_base
from tests.training.worlds import shuffled

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("kind", [BI_ENCODER, CROSS_ENCODER])
def test_losses_equal_those_of_the_library(*, kind: str, frozen: bool, tmp_path: Path) -> None:
    from mrc_workbench.training.engine.speed import cached_tokenization, passes_by_length

    build = build_bi_encoder if kind == BI_ENCODER else build_cross_encoder_base
    base = str(build(tmp_path / "base"))
    setup = TrainingSetup(
        kind, base, OURS, str(tmp_path / "columns.json"), 8, 4, precision="float32", has_frozen_table=frozen
    )
    setup = replace(setup, batches=np.random.default_rng(0).permutation(28)[:24].reshape(4, 6).tolist())
    options: Any = options_of(setup)
    training_data = TrainingData.from_question_set(shuffled(40, 40), SplitOptions(), options)
    columns, _ = (encoder_examples if kind == BI_ENCODER else cross_encoder_examples)(options, training_data)
    Path(setup.columns).write_text(json.dumps(columns), encoding="utf-8")
    trainer = project_trainer(setup, options, training_data, tmp_path / "ours")
    with cached_tokenization(trainer.model), passes_by_length(trainer.model):
        losses = train_timed(trainer, setup).losses
    expected = train_timed(library_trainer(replace(setup, side=LIBRARY), tmp_path / "library"), setup).losses
    assert len(set(expected)) == 4
    assert losses == pytest.approx(expected, rel=1e-4)
