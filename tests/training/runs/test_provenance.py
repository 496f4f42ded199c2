import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
import pytest

from data.records import Passage, Question, QuestionSet
from data.split import Part, SplitOptions, split
from data.store import keep
from models.loading import load_bi_encoder
from models.precision import Precision
from models.sources import STARTER, ModelSource, content_fingerprint, find_model
from tests.doubles import small_set
from tests.hub import COMMIT, hub_server
from training.options.rankers import BI_ENCODER, BiEncoderOptions
from training.runs.card import LIBRARIES, in_precision_begun, provenance
from training.runs.runs import Plan, new_plan

pytestmark = pytest.mark.slow  # torch is asked for the hardware
SHARES = SplitOptions(0.25, 0.25, seed=1)


def planned(question_set: QuestionSet, **options: Any) -> Plan:
    data = (keep(question_set).key, question_set.name, question_set.fingerprint)
    chosen = replace(BiEncoderOptions.suited_to(options.get("base", STARTER)), **options)
    return new_plan(BI_ENCODER, "a run", data, SHARES, chosen)


def with_passages(texts: Sequence[str]) -> QuestionSet:
    passages = tuple(Passage(f"p{row}", text) for row, text in enumerate(texts))
    return QuestionSet("set", passages, tuple(Question(f"q{p.id}", "what?", (), (p.id,)) for p in passages))


def test_it_says_what_went_in_and_survives_json() -> None:
    question_set = small_set()
    plan = planned(question_set, seed=11)
    made = provenance(plan, find_model("starter"))
    assert json.loads(json.dumps(made)) == made
    rows = split(question_set, SHARES).rows
    assert made["data"] == {
        "name": "small",
        "fingerprint": question_set.fingerprint,
        "language": "ko",
        "questions": 6,
        "passages": 5,
        "train_questions": len(rows[Part.TRAIN]),
        "validation_questions": len(rows[Part.VALIDATION]),
        "test_questions": len(rows[Part.TEST]),
    }
    assert (made["split"], made["options"], made["seed"]) == (asdict(SHARES), asdict(plan.options), 11)
    assert made["made"].endswith("+00:00")
    assert made["marked_negatives"] == []
    marked = provenance(replace(plan, marked_negatives=(("q1", "p3"),)), find_model("starter"))
    assert marked["marked_negatives"] == [["q1", "p3"]]


def test_versions_are_those_installed() -> None:
    versions = provenance(planned(small_set()), find_model("starter"))["versions"]
    assert versions.pop("python") == platform.python_version()
    assert {"torch", "transformers", "sentence-transformers", "numba", "kiwipiepy", "numpy"} <= set(versions)
    assert set(versions) <= set(LIBRARIES)
    assert versions == {library: version(library) for library in versions}


def test_hardware_is_this_machine_s() -> None:
    hardware = provenance(planned(small_set()), find_model("starter"))["hardware"]
    assert hardware["logical_cores"] == os.cpu_count()
    assert hardware["memory"] == psutil.virtual_memory().total
    assert hardware["processor"]
    assert hardware["device"] == ("cuda" if hardware["gpus"] else "cpu")
    assert hardware["bfloat16"] is False  # a starter


def test_a_run_goes_on_in_the_precision_it_began_in(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    source = ModelSource(str(tmp_path), folder=tmp_path)
    found = planned(small_set(), base=str(tmp_path), precision=Precision.AUTO)
    made = provenance(found, source)
    for began, expected in ((False, Precision.FLOAT32), (True, Precision.BFLOAT16)):
        here = {"hardware": made["hardware"] | {"bfloat16": began}}
        assert in_precision_begun(found.options, here) == replace(found.options, precision=expected)
        elsewhere = {"hardware": here["hardware"] | {"gpus": ["another"]}}
        told = replace(found.options, precision=Precision.FLOAT32)
        assert in_precision_begun(found.options, elsewhere) is found.options
        assert in_precision_begun(told, here) is told
    assert in_precision_begun(found.options, {}) is found.options


def test_the_precision_is_the_one_asked_for(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    source = ModelSource(str(tmp_path), folder=tmp_path)
    for precision in (Precision.FLOAT32, Precision.BFLOAT16):
        plan = planned(small_set(), base=str(tmp_path), precision=precision)
        assert provenance(plan, source)["hardware"]["bfloat16"] is (precision is Precision.BFLOAT16)


def test_a_starter_is_known_by_the_texts_it_is_made_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_WORKSPACE", str(tmp_path))
    question_set = small_set()
    with_titles, without = (
        provenance(planned(question_set, title=title), find_model("starter"))["base"] for title in (True, False)
    )
    assert with_titles["reference"] == "starter"
    assert with_titles["fingerprint"] != without["fingerprint"]
    load_bi_encoder(find_model("starter"), [passage.text for passage in question_set.passages])
    [kept] = (tmp_path / "cache" / "starters").iterdir()
    assert kept.name == f"bi-encoder-{without['fingerprint']}"  # the very one that is trained


def test_a_folder_is_known_by_its_content(tmp_path: Path) -> None:
    model = tmp_path / "model"
    (model / "1_Pooling").mkdir(parents=True)
    (model / "config.json").write_text("{}")
    (model / "1_Pooling" / "config.json").write_text("mean")
    base = provenance(planned(small_set(), base=str(model)), find_model(str(model)))["base"]
    assert base == {"reference": str(model), "fingerprint": content_fingerprint(model)}

    model = model.rename(tmp_path / "elsewhere")
    os.utime(model / "config.json", (0, 0))
    (model / "README.md").write_text("a card")
    assert content_fingerprint(model) == base["fingerprint"]
    (model / "1_Pooling" / "config.json").write_text("cls")
    assert content_fingerprint(model) != base["fingerprint"]
    (model / "1_Pooling" / "config.json").write_text("mean")
    (model / "1_Pooling").rename(model / "2_Pooling")
    assert content_fingerprint(model) != base["fingerprint"]


def test_a_hub_model_is_known_by_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hub" / "somebody" / "base").mkdir(parents=True)
    with hub_server(tmp_path / "hub") as url:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", url)
        made = provenance(planned(small_set(), base="somebody/base"), find_model("somebody/base"))
    assert made["base"] == {"reference": "somebody/base", "revision": COMMIT}


@pytest.mark.parametrize(
    ("texts", "language"),
    [
        (["세종대왕은 한글을 만들었다", "한강은 서울을 지난다"], "ko"),
        (["The river runs through Seoul", "It was built in 1443"], ""),
        (["長江は中国を流れる", "東京は日本の首都だ"], ""),
    ],
)
def test_the_language_is_told_where_it_is_sure(texts: list[str], language: str) -> None:
    made = provenance(planned(with_passages(texts)), find_model("starter"))
    assert made["data"]["language"] == language
