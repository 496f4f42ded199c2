"""Every chart describes itself to screen readers with what it shows."""

import ast
from collections.abc import Iterator

import pandas as pd
import pytest

from mrc_workbench.data.workspace import PROJECT
from mrc_workbench.labs.embeddings.pages.cosines import matrix, ridges
from mrc_workbench.labs.embeddings.pages.measures import plane
from mrc_workbench.labs.language.pages.gaps import bars
from mrc_workbench.labs.language.pages.layers import poolings
from mrc_workbench.workbench.views.ui import findings

VIEWS = PROJECT / "workbench" / "views"


def drawn_charts(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """Yield the function of each drawn chart, and whether the caller passes a description."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "draw_chart":
            make = node.args[0]
            name = make.attr if isinstance(make, ast.Attribute) else make.id if isinstance(make, ast.Name) else ""
            yield name, any(keyword.arg == "alt" for keyword in node.keywords)


def test_every_drawn_chart_has_a_description() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(VIEWS.rglob("*.py"))}
    described = {
        function.name
        for tree in trees.values()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) and "description=" in ast.unparse(function)
    }
    calls = [(path, *call) for path, tree in trees.items() for call in drawn_charts(tree)]
    missing = [
        f"{path.relative_to(VIEWS)}: {name}" for path, name, given in calls if not given and name not in described
    ]
    assert len(calls) > 20
    assert not missing, "\n".join(missing)


def test_charts_describe_their_figures() -> None:
    models = pd.DataFrame({"model": ["A", "B"], "alignment": [0.1, 0.2], "uniformity": [-2.0, -1.5]})
    none = pd.DataFrame(columns=["model", "step", "alignment", "uniformity"])
    assert "A -2.000, 0.1000; B -1.500, 0.2000" in plane(models, none, ["A", "B"]).to_dict()["description"]
    guesses = pd.DataFrame({"piece": ["1. sea", "2. sky"], "probability": [0.75, 0.2]})
    assert "1. sea 75.00%; 2. sky 20.00%" in bars(guesses, [*guesses["piece"]], 1.0).to_dict()["description"]
    layers = pd.DataFrame({"layer": ["0", "1"], "pooling": ["mean", "mean"], "value": [50.0, 60.0]})
    assert "mean from 50.0 (0) to 60.0 (1)" in poolings(layers, ["mean"], y="nDCG").to_dict()["description"]


def test_a_matrix_describes_its_highest_and_lowest_pair() -> None:
    names = ["1", "2", "3"]
    cosines = {("1", "2"): 0.9, ("1", "3"): 0.1, ("2", "3"): 0.5}
    rows = [
        {"row": row, "column": column, "first": f"s{row}", "second": f"s{column}"}
        | {"cosine": 1.0 if row == column else cosines[min(row, column), max(row, column)]}
        for row in names
        for column in names
    ]
    description = matrix(pd.DataFrame(rows), names).to_dict()["description"]
    assert "highest 0.900 (s1 – s2); lowest 0.100 (s1 – s3)" in description


def test_a_band_without_density_has_no_peak() -> None:
    rows = [("low", 0, 0.1, 0.0), ("low", 0, 0.2, 0.0), ("high", 1, 0.1, 1.0), ("high", 1, 0.2, 3.0)]
    table = pd.DataFrame(rows, columns=["band", "place", "cosine", "density"])
    description = ridges(table, ["low", "high"], "Model", ["Model"], x="Cosine").to_dict()["description"]
    assert "high 0.20" in description
    assert "low" not in description


@pytest.mark.parametrize("table", [pd.DataFrame({"a": [], "b": [], "v": []})])
def test_an_empty_grid_is_described_by_its_title(table: pd.DataFrame) -> None:
    assert findings.extremes("Cosine", table, ("a", "b"), "v", ".2f") == "Cosine"
