"""Renamed fields are read under both names."""

import logging
from dataclasses import dataclass

import pytest
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from mrc_workbench.data.earlier_names import accept_earlier_names, current_names


@dataclass(frozen=True)
class Scores:
    metrics: int
    _earlier = accept_earlier_names({"figures": "metrics"})


class Spec(BaseModel):
    model_config = ConfigDict(extra="forbid")
    top_k: int
    _earlier = accept_earlier_names({"keep": "top_k"})


def test_dataclasses_and_models_read_earlier_names() -> None:
    assert TypeAdapter(Scores).validate_json('{"figures": 3}') == Scores(metrics=3)
    assert TypeAdapter(Scores).dump_python(Scores(3)) == {"metrics": 3}
    assert Spec.model_validate({"keep": 5}) == Spec(top_k=5)


def test_other_names_are_refused_as_before() -> None:
    with pytest.raises(ValidationError, match="depth"):
        Spec.model_validate({"keep": 5, "depth": 3})
    with pytest.raises(ValidationError):
        TypeAdapter(Scores).validate_python([3])


def test_the_current_name_applies_if_both_occur() -> None:
    values = {"figures": 1, "metrics": 2, "k": 3}
    assert current_names(values, {"figures": "metrics"}, "scores") == {"metrics": 2, "k": 3}


def test_logs_a_deprecation_line_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            current_names({"width": 1}, {"width": "max_width"}, "experiment.toml")
    assert caplog.messages == [
        "experiment.toml: 'width' is now 'max_width'; the earlier name is accepted until version 2.0"
    ]
