"""Experiments, results and addresses of earlier versions open, and each earlier name is logged."""

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from mrc_workbench.data import files
from mrc_workbench.data.cache import load_arrays, save_arrays
from mrc_workbench.data.store import save_question_set
from mrc_workbench.labs.embeddings.encoder import CostPoint
from mrc_workbench.labs.language.comparison import TokenizerResult
from mrc_workbench.labs.language.study import TokenizerComparison
from mrc_workbench.labs.reading import study
from mrc_workbench.labs.reading.evaluate import evaluate
from mrc_workbench.labs.reading.generate import GeneratedAnswers, generate
from mrc_workbench.labs.reading.generator import GeneratorSpec
from tests.labs.reading.cities import GENERATOR, REQUESTS
from tests.labs.reading.doubles import SET, NextWord
from tests.labs.reading.test_job import experiment_of

GENERATOR_SPEC = {"name": "a", "model": "m", "most_passages": 3, "most_characters": 9, "questions": 7, "most_cost": 1.5}
MAXIMA = {"max_passages": 3, "max_characters": 9, "max_questions": 7, "max_cost": 1.5}
POINT = {"method": "exact", "sentences": 3, "seconds": 0.5, "measured": True}
RESULT = {"name": "bpe", "trained": {"kind": "bpe"}, "figures": None}
COMPARISON = {"corpus": "a", "counted": 7, "tokenizers": [], "occurrences": {}}


@pytest.fixture(autouse=True)
def _log_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger=files.__name__)


@pytest.mark.parametrize(
    ("kind", "earlier", "current"),
    [
        (GeneratorSpec, GENERATOR_SPEC, MAXIMA),
        (CostPoint, POINT, {"is_measured": True}),
        (TokenizerResult, RESULT, {"training_options": {"kind": "bpe"}, "metrics": None}),
        (TokenizerComparison, COMPARISON, {"n_counted_documents": 7}),
    ],
)
def test_reads_earlier_fields(kind: Any, earlier: Any, current: Any, caplog: pytest.LogCaptureFixture) -> None:
    spec = TypeAdapter(kind).validate_python(earlier)
    assert {name: getattr(spec, name) for name in current} == current
    assert len(caplog.messages) == len(current)


def test_opens_earlier_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("mrc_workbench.labs.reading.evaluate.SpanReader", lambda _: NextWord())
    result = evaluate(experiment_of(save_question_set(SET), "starter"), SET)
    study.save_result(result, tmp_path)
    earlier_fields = {name: earlier for earlier, name in study._EARLIER_FIELDS.items()}
    arrays = {}
    for key, array in (load_arrays(tmp_path / "judged.npz") or {}).items():
        name = next((name for name in earlier_fields if key.endswith(f"_{name}")), "")
        arrays[key.removesuffix(name) + earlier_fields.get(name, "")] = array
    save_arrays(tmp_path / "judged.npz", arrays)
    text = (tmp_path / "scores.json").read_text(encoding="utf-8").replace('"selected_on"', '"chosen_on"')
    (tmp_path / "scores.json").write_text(text, encoding="utf-8")
    (tmp_path / "comparison").rename(tmp_path / "found")
    (opened,) = study.load(tmp_path, SET).result.readers
    (stored,) = result.readers
    for name, answers in opened.by_retriever.items():
        np.testing.assert_array_equal(answers.by_depth.outcome, stored.by_retriever[name].by_depth.outcome)
        np.testing.assert_array_equal(answers.candidates.offsets, stored.by_retriever[name].candidates.offsets)
    messages = {f"judged.npz: {earlier!r} is now {name!r}" for name, earlier in earlier_fields.items()}
    messages |= {f"{name}: 'chosen_on' is now 'selected_on'" for name in ("scores.json", "BM25Spec")}
    assert {message.partition("; ")[0] for message in caplog.messages} == messages


def test_reuses_earlier_generated_answers(caplog: pytest.LogCaptureFixture) -> None:
    key = GENERATOR.build_messages(REQUESTS[0]).key
    path = GeneratedAnswers(GENERATOR)._path
    path.parent.mkdir(parents=True)
    entry = {"asked": key, "said": "서울역 앞 [1]", "first_seconds": 0.1, "seconds": 0.2}
    path.write_text(json.dumps(entry), encoding="utf-8")
    assert generate(GENERATOR, REQUESTS, None).answers["q0"].response == "서울역 앞 [1]"
    assert len(caplog.messages) == 2
