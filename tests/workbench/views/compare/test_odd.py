"""The Compare page with unusual data: damaged files, comparisons without results, a single group."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.store import save_question_set
from mrc_workbench.retrieval.comparison.compare import Result
from mrc_workbench.retrieval.comparison.experiment import Experiment, add_retriever
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, MilvusSpec
from mrc_workbench.retrieval.milvus_connection import MilvusError
from mrc_workbench.workbench.views.compare import running
from mrc_workbench.workbench.views.ui.words import catalog, failure_text, plain, search_failure_text
from tests.doubles import PASSAGES, QUESTIONS, small_set
from tests.retrieval.compared import RIGHT
from tests.workbench.views.compare.worlds import page, page_text, store_results, store_rows
from tests.workbench.views.driving import opened

EN = catalog("en")
NAMES = ("BM25", "Dense")


def compared(question_set: QuestionSet, rows_by_name: dict[str, list[list[int]] | None]) -> Path:
    """Store a comparison on all questions; retrievers without rankings have failed. Return its folder."""
    return store_rows(save_question_set(question_set), rows_by_name, question_set)


def look(**address: str) -> AppTest:
    return opened(page, part="all", retrievers="|".join(NAMES), **address)


def labels(app: AppTest) -> list[str]:
    return [button.label for button in app.button]


def _in_json(name: str, **changes: object) -> Callable[[Path], object]:
    def change(folder: Path) -> None:
        content = json.loads((folder / name).read_text(encoding="utf-8"))
        (folder / name).write_text(json.dumps({**content, **changes}), encoding="utf-8")

    return change


TORN: dict[str, Callable[[Path], object]] = {
    "rankings cut": lambda folder: (folder / "rankings.npz").write_bytes((folder / "rankings.npz").read_bytes()[:300]),
    "no rankings": lambda folder: (folder / "rankings.npz").unlink(),
    "empty scores": lambda folder: (folder / "scores.json").write_bytes(b""),
    "scores of a list": _in_json("scores.json", retrievers=["BM25", "Dense"]),
    "no provenance": lambda folder: (folder / "provenance.json").unlink(),
    "no experiment": lambda folder: (folder / "provenance.json").write_text('{"created_at": "today"}'),
    "another experiment": _in_json("provenance.json", experiment={"data": "small"}),
}


@pytest.mark.parametrize("tear", TORN.values(), ids=TORN.keys())
def test_reruns_truncated_comparison(tear: Callable[[Path], object], started: list[Experiment]) -> None:
    folder = compared(small_set(), {"BM25": RIGHT, "Dense": RIGHT})
    tear(folder)
    app = look()
    assert [spec.name for spec in started[0].retriever] == list(NAMES)
    assert EN["compare.not_run"] in page_text(app)
    assert EN["compare.run"] in labels(app)  # the button that the text names


@pytest.mark.parametrize("content", ["{", "{}", "3"])
def test_ignores_truncated_progress(content: str, started: list[Experiment]) -> None:
    folder = compared(small_set(), {"BM25": RIGHT, "Dense": RIGHT})
    (folder / "scores.json").unlink()
    (folder / "status.json").write_text(content)
    app = look()
    assert len(started) == 1
    assert EN["compare.not_run"] in page_text(app)


def test_opens_comparison_ending_during_rendering(started: list[Experiment], monkeypatch: pytest.MonkeyPatch) -> None:
    scores = compared(small_set(), {"BM25": RIGHT, "Dense": RIGHT}) / "scores.json"
    unfinished = scores.rename(scores.with_name("aside.json"))
    follow = running.follow

    def ended(*given: Any) -> None:
        if unfinished.exists():
            unfinished.rename(scores)
        follow(*given)

    monkeypatch.setattr(running, "follow", ended)
    app = look()
    assert len(started) == 1
    assert EN["compare.not_run"] not in page_text(app)
    assert EN["compare.run_again"] in labels(app)


def test_suggests_no_other_k_if_all_failed() -> None:
    compared(small_set(), {"BM25": None, "Dense": None})
    app = look(view="where")
    assert [info.value for info in app.info] == [EN["why.no_rankings"]]
    assert len(app.error) == 2


def test_single_question_has_no_significant_difference() -> None:
    question_set = QuestionSet("one", PASSAGES, (QUESTIONS[5],))  # two relevant passages
    compared(question_set, {"BM25": [[1, 0]], "Dense": [[0]]})
    app = look(measure="recall", k="1")
    (pair,) = app.dataframe[-1].value.to_dict("records")
    assert (pair["difference"], pair["low"], pair["high"]) == (-50.0, -100.0, 100.0)
    table = app.dataframe[1].value
    assert table.loc["BM25", 1] == "50.00 [0.0, 100.0]"
    part = QuestionSet("part", PASSAGES, (QUESTIONS[0],))
    compared(part, {"BM25": [[0]], "Dense": [[1]]})
    table = look(view="where", k="1", data=save_question_set(part).key).dataframe[0].value
    dense = table.set_index("retriever").loc["Dense"]
    assert (dense["difference"], dense["difference_low"], dense["difference_high"]) == (-100.0, -100.0, 100.0)
    assert (dense["low"], dense["high"]) == pytest.approx((0.0, 97.5))


def test_keeps_metrics_of_others_if_first_stage_failed() -> None:
    compared(small_set(), {"BM25": RIGHT, "Dense": None, "Hybrid": None})
    for view in ("overview", "where", "why", "tune", "kept"):
        app = opened(page, part="all", retrievers="BM25|Dense|Hybrid", view=view)
        assert len(app.error) == 2


def test_translates_milvus_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    data = save_question_set(small_set())
    add_retriever(data.fingerprint, MilvusSpec(name="Milvus"))
    codes = ("address", "unreachable", "refused", "locked", "failed")
    failures = {code: MilvusError(f"milvus_{code}", "English", milvus="http://host:1/mine") for code in codes}
    messages = {code: EN[f"milvus.milvus_{code}"].format(milvus="http://host:1/mine") for code in codes}
    store_results(data, ["Milvus"], small_set(), [Result("Milvus", error=failures["refused"])])
    (error,) = opened(page, part="all", retrievers="Milvus").error
    assert plain(messages["refused"]) in error.value
    monkeypatch.setattr("mrc_workbench.workbench.views.ui.words.language", lambda: "en")
    assert {code: failure_text(failure) for code, failure in failures.items()} == messages
    assert {code: search_failure_text(failure) for code, failure in failures.items()} == messages


@pytest.mark.parametrize("view", ["overview", "where", "why", "tune", "takeaway", "kept", "../x"])
def test_opens_tab_with_invalid_address_and_all_controls(view: str) -> None:
    compared(small_set(), {"BM25": RIGHT, "Dense": RIGHT})
    nonsense = "k=7&measure=x&slice=x&within=-1&fate=x&of=nobody&quadrant=x&words=(&question=../<script>&explained=x"
    app = look(view=view, **dict(parse_qsl(f"{nonsense}&against=y&lab=x&k1=many&analyzers=x|y&windows=-1")))
    assert not app.error
    assert (app.query_params["k"], app.query_params["measure"]) == ("10", "ndcg")  # the defaults
    boxes = [box.label for box in app.selectbox if not str(box.key).startswith("add_")]  # kinds of added retrievers
    assert boxes[:4] == [EN["compare.questions"], EN["compare.measure"], "K", EN["compare.baseline"]]
    if view == "../x":  # the overview
        assert len(app.dataframe[0].value) == 2


def test_escapes_retriever_names() -> None:
    data = save_question_set(small_set())
    name = "*a* _b_ $c$ :smile: [d](e) <b>"
    add_retriever(data.fingerprint, BM25Spec(name=name, analyzer="word"))
    store_rows(data, {name: RIGHT})
    app = opened(page, part="all", retrievers=name)
    assert app.pills[0].options[-1] == plain(name) != name
    assert app.pills[0].value == [name]
    assert app.dataframe[0].value["retriever"].tolist() == [name]


def test_reports_generated_questions() -> None:
    small = small_set()
    first, *others = small.questions
    rows_by_name: dict[str, list[list[int]] | None] = dict.fromkeys(NAMES, RIGHT)
    compared(replace(small, questions=(replace(first, generator="sentence", hidden=True), *others)), rows_by_name)
    assert "**1 of 6 questions were generated from passages** (Sentence)" in page_text(look())
