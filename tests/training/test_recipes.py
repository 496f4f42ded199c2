"""What every kind of training keeps to: those that the program comes with, and one that is added by one line."""

import ast
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from data.split import SplitOptions
from models.sources import ModelError, find_model
from tests.training.toy import ToyRecipe
from training.base import Family, Recipe
from training.recipe import RECIPES, kinds_alike, kinds_to_start_from, recipe_of, usual_base
from training.runs.runs import create_run, new_plan

Kind = type[Recipe[Any, Any]]
KINDS = pytest.mark.parametrize("recipe", [*RECIPES.values(), ToyRecipe], ids=lambda recipe: str(recipe.kind))


@pytest.fixture(autouse=True)
def _with_the_toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RECIPES, ToyRecipe.kind, ToyRecipe)


@KINDS
def test_a_kind_is_found_by_its_name_and_says_what_it_is(recipe: Kind) -> None:
    assert recipe_of(recipe.kind) is recipe
    assert isinstance(recipe.family, Family)
    assert recipe.measure in recipe.family.measures
    assert set(recipe.family.curves) & set(recipe.family.measures)
    assert recipe.does.endswith(".")
    assert recipe.hub_task
    assert recipe.colour.startswith("#")
    assert usual_base(recipe.kind)
    assert recipe.kind in kinds_alike(recipe.kind)
    assert set(kinds_to_start_from(recipe.kind)) <= set(RECIPES)


@KINDS
def test_a_plan_of_a_kind_is_read_as_it_was_written(recipe: Kind) -> None:
    options = replace(recipe.options.suited_to(usual_base(recipe.kind)), seed=7)
    plan = new_plan(recipe.kind, "test", ("sample", "sample", "0"), SplitOptions(0.25, 0.5, 3), options)
    assert create_run(plan).plan() == plan


@pytest.mark.slow
@KINDS
def test_the_lines_that_load_a_finished_model_can_be_run(recipe: Kind) -> None:
    for imports, model in filter(None, (recipe.loading, recipe.loading_a_starter)):
        known = set()
        for line in ast.parse(imports).body:
            assert isinstance(line, ast.ImportFrom)
            module, names = import_module(str(line.module)), {name.name for name in line.names}
            assert all(hasattr(module, name) for name in names), imports
            known |= names
        called = ast.parse(model.format(folder="here"), mode="eval")
        assert {name.id for name in ast.walk(called) if isinstance(name, ast.Name)} <= known
        compile(recipe.usage, "usage", "exec")


@KINDS
@pytest.mark.parametrize("title", [True, False])
def test_what_a_model_is_searched_with_names_the_model(recipe: Kind, title: bool) -> None:
    specs = recipe.retrievers("a-run", "BM25", title=title, named=lambda name: f"{name} of it")
    assert len({spec.name for spec in specs}) == len(specs)
    assert all(spec.name.endswith(" of it") for spec in specs)
    assert not specs or any(getattr(spec, "model", "") == "a-run" for spec in specs)


@KINDS
def test_a_base_that_is_offered_can_be_begun_from(recipe: Kind) -> None:
    for base in recipe.options.offered():
        assert recipe.options.suited_to(base).base == base
        try:
            source = find_model(base)
        except ModelError:  # not on this machine
            continue
        recipe.options.check_base(source)
