"""The packaged base on the first real pairs, compared with metrics that a separate script computed in float32."""

import os
from pathlib import Path

import numpy as np
import pytest

from mrc_workbench.data.pairs.store import find
from mrc_workbench.data.split import Part
from mrc_workbench.labs.embeddings.encoder import DistinctSentences, encode
from mrc_workbench.labs.embeddings.geometry import positive_rows, uniformity
from mrc_workbench.labs.embeddings.study import evaluate

FOLDER = Path(os.environ.get("MRC_DATA", ""))
REQUIRED_FILES = ("korsts_test.tsv", "klue_sts_dev.json")
MODEL = "packaged:multilingual-e5-small"
FIRST_ROWS = np.arange(250)

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
    all_pairs = find("korsts_test.tsv", FOLDER)
    n_sentences = len(DistinctSentences.from_pairs(all_pairs).sentences)
    assert (len(all_pairs), n_sentences, len(positive_rows(all_pairs))) == (1379, 2514, 338)
    pairs = all_pairs.at(FIRST_ROWS)
    evaluation = evaluate(pairs, [MODEL], Part.ALL)
    metrics = evaluation.results[0].metrics
    assert (len(evaluation.rows), evaluation.sentences, evaluation.positives) == (250, 416, 41)
    assert metrics["spearman"].value == pytest.approx(0.8589, abs=0.001)
    assert metrics["pearson"].value == pytest.approx(0.8560, abs=0.001)
    assert metrics["alignment"].value == pytest.approx(0.0614, abs=0.0005)
    distinct = DistinctSentences.from_pairs(pairs)
    vectors = encode(MODEL, distinct.sentences, pairs.sentences).vectors
    assert uniformity(vectors[distinct.sentence_rows.ravel()]) == pytest.approx(-0.544, abs=0.005)
    assert metrics["uniformity"].value == pytest.approx(-0.5595, abs=0.005)  # each sentence once


def test_klue_sts_matches_reference_correlations() -> None:
    pairs = find("klue_sts_dev.json", FOLDER)
    assert len(pairs) == 519
    metrics = evaluate(pairs.at(FIRST_ROWS), [MODEL], Part.ALL).results[0].metrics
    assert metrics["spearman"].value == pytest.approx(0.7390, abs=0.001)
    assert metrics["pearson"].value == pytest.approx(0.7470, abs=0.001)
