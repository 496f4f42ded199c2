"""The packaged base on real pairs: the figures that a script of its own gave for its vectors in float32."""

import os
from pathlib import Path

import numpy as np
import pytest

from mrc_workbench.data.pairs.store import find
from mrc_workbench.data.split import Part
from mrc_workbench.labs.embeddings.encoder import Distinct, encode
from mrc_workbench.labs.embeddings.geometry import uniformity
from mrc_workbench.labs.embeddings.study import evaluate

FOLDER = Path(os.environ.get("MRC_DATA", ""))
NEEDED = ("korsts_test.tsv", "klue_sts_dev.json")
MODEL = "packaged:multilingual-e5-small"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.packaged,
    pytest.mark.skipif(
        not all((FOLDER / name).is_file() for name in NEEDED),
        reason=f"needs {' and '.join(NEEDED)} in the folder that MRC_DATA names",
    ),
]


@pytest.fixture(scope="module")
def workspace_of_the_module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workspace")


@pytest.fixture(autouse=True)
def _base_is_written_once(workspace_of_the_module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_WORKSPACE", str(workspace_of_the_module))


def test_korsts_has_the_correlations_and_the_geometry_measured_elsewhere() -> None:
    pairs = find("korsts_test.tsv", FOLDER)
    found = evaluate(pairs, [MODEL], Part.ALL)
    figures = found.results[0].figures
    assert (len(found.rows), found.sentences, found.positives) == (1379, 2514, 338)
    assert figures["spearman"].value == pytest.approx(0.7684, abs=0.001)
    assert figures["pearson"].value == pytest.approx(0.7770, abs=0.001)
    assert figures["alignment"].value == pytest.approx(0.0745, abs=0.0005)
    distinct = Distinct.of(pairs)
    vectors = encode(MODEL, distinct.sentences, pairs.sentences).vectors
    as_often_as_they_stand = np.concatenate([vectors[distinct.places[:, 0]], vectors[distinct.places[:, 1]]])
    assert uniformity(as_often_as_they_stand) == pytest.approx(-0.71, abs=0.005)
    assert figures["uniformity"].value == pytest.approx(-0.719, abs=0.005)  # each sentence once


def test_klue_sts_has_the_correlations_measured_elsewhere() -> None:
    found = evaluate(find("klue_sts_dev.json", FOLDER), [MODEL], Part.ALL)
    figures = found.results[0].figures
    assert len(found.rows) == 519
    assert figures["spearman"].value == pytest.approx(0.7757, abs=0.001)
    assert figures["pearson"].value == pytest.approx(0.7762, abs=0.001)
