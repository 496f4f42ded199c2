"""`mrc tune`: the page's laboratory of k1 and b as a command."""

import json
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from mrc_workbench.data.split import Part
from mrc_workbench.data.store import find
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.models.inference import TokenLayers
from mrc_workbench.retrieval.analysis.labs import best_setting_name, bm25_lab, cross_fit, lab_results
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import read_experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, WindowedBM25Spec
from mrc_workbench.retrieval.significance import question_groups
from mrc_workbench.workbench.cli import main
from tests.tiny_models import build_bi_encoder

Capture = pytest.CaptureFixture[str]
SPECS = [
    {"name": "BM25", "kind": "bm25", "analyzer": "word", "pairs": True},
    {"name": "Windows", "kind": "bm25-windows", "analyzer": "word", "sentences": 2},
    {"name": "Dense", "kind": "dense"},
]
TABLES = "".join(f"\n[[retriever]]\n{tomli_w.dumps(spec)}" for spec in SPECS)
EXPERIMENT = f'data = "sample"\nsplit = "test"\n{TABLES}'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "experiment.toml"
    path.write_text(EXPERIMENT, encoding="utf-8")
    return path


def tuned(capsys: Capture, path: Path, *words: str) -> dict[str, Any]:
    assert main(["tune", str(path), *words, "--json"]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


@pytest.mark.slow
def test_prints_cross_validated_gain(path: Path, capsys: Capture) -> None:
    result = tuned(capsys, path, "BM25", "--k1", "2", "0.3", "--b", "0.5", "--analyzer", "bigram", "word")
    experiment = read_experiment(path)
    lab = bm25_lab(experiment, "BM25", [Analyzer.BIGRAM, Analyzer.WORD], k1s=[0.3, 2], bs=[0.5])
    comparison = compare(lab, find("sample"))
    groups = question_groups(comparison.question_set)
    scores = lab_results(comparison, "ndcg@10", groups)
    fit = cross_fit(comparison, scores, "BM25", "ndcg@10", groups)
    assert fit is not None
    assert (result["best"], result["questions"]) == (best_setting_name(scores), len(comparison.question_set.questions))
    expected = scores.set_index("name")["value"].to_dict()
    assert {row["name"]: row["value"] for row in result["settings"]} == pytest.approx(expected)
    assert result["cross_validated"]["difference"] == pytest.approx(fit.test.difference)
    assert result["cross_validated"]["selections"] == dict(fit.selections)


@pytest.mark.slow
def test_tunes_the_layers_of_late_interaction(path: Path, tmp_path: Path, capsys: Capture) -> None:
    model = build_bi_encoder(tmp_path / "base")
    late = f'\n[[retriever]]\nname = "Late"\nkind = "late"\nmodel = "{model}"\n'
    path.write_text(EXPERIMENT + late, encoding="utf-8")
    result = tuned(capsys, path, "Late")
    assert [row["layers"] for row in result["settings"]] == [*TokenLayers]
    assert result["best"] in [*TokenLayers]
    assert sum(result["cross_validated"]["selections"].values()) == 5
    assert result["retriever"]["layers"] == result["best"]
    assert result["retriever"]["name"] == f"Late · {result['best']}"


@pytest.mark.slow
def test_adds_the_best_setting_to_the_experiment_file(path: Path, capsys: Capture) -> None:
    assert main(["tune", str(path), "BM25", "--k1", "1.6", "--b", "0.75", "--add"]) == 0
    printed = capsys.readouterr().out
    assert "Best: word · k1 1.6 · b 0.75, selected in 5 of 5 folds." in printed
    assert "points of nDCG@10 over BM25" in printed
    text = path.read_text(encoding="utf-8")
    assert text.startswith(EXPERIMENT)
    added = text.removeprefix(EXPERIMENT).strip()
    assert added in printed
    *_, last = read_experiment(path).retriever
    values = {"analyzer": Analyzer.WORD, "pairs": True, "k1": 1.6, "b": 0.75, "selected_on": Part.VALIDATION}
    assert last == BM25Spec(name="BM25 · word · k1 1.6 · b 0.75", **values)
    assert main(["tune", str(path), "BM25", "--k1", "1.6", "--b", "0.75", "--add"]) == 2
    assert "already" in capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.slow
def test_tuned_windowed_bm25_stays_windowed(path: Path, capsys: Capture) -> None:
    result = tuned(capsys, path, "Windows", "--k1", "1.2", "--b", "0.4", "--metric", "recall@10")
    assert result["measure"] == "recall@10"
    assert (result["retriever"]["kind"], result["retriever"]["sentences"]) == ("bm25-windows", 2)
    assert WindowedBM25Spec.model_validate(result["retriever"]).k1 == 1.2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("Dense",), "is no BM25 of the experiment"),
        (("BM26",), "['BM25', 'Windows']"),
        (("BM25", "--k1", "11"), "between 0 and 10"),
        (("BM25", "--b", "1.5"), "between 0 and 1"),
        (("BM25", "--b", *(f"0.{number}" for number in range(10, 30))), "is not 1 to 12 numbers"),
        (("BM25", "--metric", "mrr@7"), "is no metric of the experiment"),
    ],
)
def test_rejects_untunable_retriever(path: Path, capsys: Capture, words: tuple[str, ...], says: str) -> None:
    assert main(["tune", str(path), *words]) == 2
    assert says in capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == EXPERIMENT
