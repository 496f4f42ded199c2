"""The page of a lab without a page module."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from pydantic import BaseModel, Field
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.studies import Column, ColumnUnit, ResultTable, Study
from mrc_workbench.workbench.views import study as view
from mrc_workbench.workbench.views.ui import words

EN = words.catalog("en")


class Spec(BaseModel):
    """Limits of other types than their fields."""

    threshold: float = Field(0.5, ge=0, le=1)
    count: int = Field(3, ge=1)


class Result(BaseModel):
    values: list[float | None]


STUDY = Study[Spec, Result](
    name="limits",
    summary="Draw controls and columns.",
    versions=(1,),
    spec=Spec,
    result=Result,
    run=lambda spec, _: Result(values=[spec.threshold, None]),
    tables=(
        ResultTable(
            "values",
            lambda result: pd.DataFrame({"size": result.values, "share": result.values}, dtype=object),
            (Column("size", ColumnUnit.COUNT), Column("share", ColumnUnit.FRACTION)),
        ),
    ),
)


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> AppTest:
    def page() -> None:
        from mrc_workbench.workbench.views.study import draw

        draw("limits")

    lab: Any = SimpleNamespace(name="limits", load_study=lambda: STUDY)
    monkeypatch.setattr(view, "labs", lambda: (lab,))
    test = AppTest.from_function(page, default_timeout=60)
    test.query_params["lang"] = "en"
    return test


def test_damaged_words_of_a_lab_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    labs = [SimpleNamespace(folder=tmp_path / name) for name in ("cut", "flat", "sound")]
    for lab, content in zip(labs, ("[page", 'x = "y"', '[page]\nsound = "Sound"'), strict=True):
        lab.folder.mkdir()
        (lab.folder / "words.en.toml").write_text(content, encoding="utf-8")
    monkeypatch.setattr(words, "labs", lambda: labs)
    texts = words.catalog.__wrapped__("en")
    assert texts["page.sound"] == "Sound"
    assert texts["study.start"] == EN["study.start"]


def test_draws_fields_with_limits_and_columns_with_missing_values(app: AppTest) -> None:
    app.run()
    assert not app.exception
    assert [(field.value, field.min, field.max) for field in app.number_input] == [(0.5, 0.0, 1.0), (3, 1, None)]
    job = STUDY.job(Spec())
    job.folder.mkdir(parents=True)
    job.write_spec(Spec())
    assert job.run() == 0
    app.run()
    assert not app.exception
    (table,) = app.dataframe
    assert table.value["share"].tolist()[0] == 50
    assert table.value.isna().sum().tolist() == [1, 1]

    job.result.write_text("{}", encoding="utf-8")
    app.run()
    assert [error.value for error in app.error] == [EN["study.damaged"]]
    next(button for button in app.button if button.label == EN["study.delete"]).click().run()
    assert not app.exception
    assert not job.folder.exists()
    assert EN["study.start"] in [button.label for button in app.button]
