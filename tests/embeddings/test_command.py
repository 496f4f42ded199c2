"""`python -m embeddings evaluate`: figures for people, and for programs."""

import json
from pathlib import Path

import pytest

from data.pairs.store import keep
from data.split import Part
from embeddings import results
from embeddings.__main__ import main
from embeddings.evaluate import evaluate
from tests.embeddings.worlds import scored_pairs

pytestmark = pytest.mark.slow


def test_json_has_every_figure_by_model_with_its_interval(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    keep(scored_pairs())
    asked = ["evaluate", "--data", "counted", "--model", "starter", "--json", "--out", str(tmp_path / "out")]
    assert main(asked) == 0
    told = json.loads(capsys.readouterr().out)
    figures = evaluate(scored_pairs(), ["starter"], Part.TEST).results[0].figures
    assert [*figures] == ["spearman", "pearson", "alignment", "uniformity", "anisotropy"]
    for name, figure in figures.items():
        assert told["models"]["starter"][name] == figure.value
        assert told["models"]["starter"]["interval"][name] == [figure.low, figure.high]
    assert (told["split"], told["data"], told["pairs"]) == ("test", "counted", 28)
    assert results.load(tmp_path / "out").results[0].figures == figures


def test_a_table_names_a_model_that_failed(capsys: pytest.CaptureFixture[str]) -> None:
    keep(scored_pairs())
    assert main(["evaluate", "--data", "counted", "--model", "starter", "--model", "no/such/model"]) == 1
    out, error = capsys.readouterr()
    assert out.splitlines()[0].startswith("28 scored rows")
    assert out.splitlines()[1].split() == ["spearman", "pearson", "alignment", "uniformity", "anisotropy"]
    assert out.splitlines()[3].split() == ["no/such/model", "failed"]
    assert "no/such/model failed: " in error


def test_what_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "--data", "nowhere", "--model", "starter"]) == 2
    assert "nowhere" in capsys.readouterr().err
