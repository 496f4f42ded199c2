"""The packaged base on real pairs, compared with metrics that a separate script computed in float32."""

import os
from pathlib import Path

import numpy as np
import pytest

from mrc_workbench.data.pairs.store import find
from mrc_workbench.data.split import Part
from mrc_workbench.labs.embeddings.encoder import DistinctSentences, encode
from mrc_workbench.labs.embeddings.geometry import uniformity
from mrc_workbench.labs.embeddings.study import evaluate

FOLDER = Path(os.environ.get("MRC_DATA", ""))
REQUIRED_FILES = ("korsts_test.tsv", "klue_sts_dev.json")
MODEL = "packaged:multilingual-e5-small"

HAS_FILES = all((FOLDER / name).is_file() for name in REQUIRED_FILES)
REASON = f"needs {' and '.join(REQUIRED_FILES)} in the folder that MRC_DATA names"
pytestmark = [pytest.mark.slow, pytest.mark.packaged, pytest.mark.skipif(not HAS_FILES, reason=REASON)]


@pytest.fixture(scope="module")
def workspace_of_the_module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workspace")


@pytest.fixture(autouse=True)
def _base_is_written_once(workspace_of_the_module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_WORKSPACE", str(workspace_of_the_module))


def test_korsts_matches_reference_metrics() -> None:
    pairs = find("korsts_test.tsv", FOLDER)
    evaluation = evaluate(pairs, [MODEL], Part.ALL)
    metrics = evaluation.results[0].metrics
    assert (len(evaluation.rows), evaluation.sentences, evaluation.positives) == (1379, 2514, 338)
    assert metrics["spearman"].value == pytest.approx(0.7684, abs=0.001)
    assert metrics["pearson"].value == pytest.approx(0.7770, abs=0.001)
    assert metrics["alignment"].value == pytest.approx(0.0745, abs=0.0005)
    distinct = DistinctSentences.from_pairs(pairs)
    vectors = encode(MODEL, distinct.sentences, pairs.sentences).vectors
    with_duplicates = np.concatenate([vectors[distinct.sentence_rows[:, 0]], vectors[distinct.sentence_rows[:, 1]]])
    assert uniformity(with_duplicates) == pytest.approx(-0.71, abs=0.005)
    assert metrics["uniformity"].value == pytest.approx(-0.719, abs=0.005)  # each sentence once


def test_klue_sts_matches_reference_correlations() -> None:
    evaluation = evaluate(find("klue_sts_dev.json", FOLDER), [MODEL], Part.ALL)
    metrics = evaluation.results[0].metrics
    assert len(evaluation.rows) == 519
    assert metrics["spearman"].value == pytest.approx(0.7757, abs=0.001)
    assert metrics["pearson"].value == pytest.approx(0.7762, abs=0.001)
