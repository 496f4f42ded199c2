"""The Compare page over what nobody means to bring: torn files, comparisons in which all failed, one single group."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.store import keep
from mrc_workbench.retrieval.comparison.compare import Result
from mrc_workbench.retrieval.comparison.experiment import Experiment, add
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, MilvusSpec
from mrc_workbench.retrieval.milvus_connection import MilvusError
from mrc_workbench.workbench.views.compare import running
from mrc_workbench.workbench.views.ui.words import catalog, plain, search_failure_text
from tests.doubles import PASSAGES, QUESTIONS, small_set
from tests.retrieval.compared import comparison_of
from tests.workbench.views.compare.worlds import FOUND, KS, kept, page, said
from tests.workbench.views.driving import opened

EN = catalog("en")
NAMES = ("BM25", "Dense")


def compared(question_set: QuestionSet, found: dict[str, list[list[int]] | None]) -> Path:
    """Keep a comparison of these retrievers over all questions, those without rankings failed; returns its folder."""
    return kept(keep(question_set), found, question_set, comparison_of(found, question_set, KS, depth=100).results)


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
    "no experiment": lambda folder: (folder / "provenance.json").write_text('{"made": "today"}'),
    "another experiment": _in_json("provenance.json", experiment={"data": "small"}),
}


@pytest.mark.parametrize("tear", TORN.values(), ids=TORN.keys())
def test_a_torn_comparison_is_run_anew(tear: Callable[[Path], object], started: list[Experiment]) -> None:
    folder = compared(small_set(), {"BM25": FOUND, "Dense": FOUND})
    tear(folder)
    app = look()
    assert [spec.name for spec in started[0].retriever] == list(NAMES)
    assert EN["compare.not_run"] in said(app)
    assert EN["compare.run"] in labels(app)  # the button that the words name


@pytest.mark.parametrize("content", ["", "{", "{}", "[]", "3"])
def test_a_torn_note_of_progress_is_none(content: str, started: list[Experiment]) -> None:
    folder = compared(small_set(), {"BM25": FOUND, "Dense": FOUND})
    (folder / "scores.json").unlink()
    (folder / "status.json").write_text(content)
    app = look()
    assert len(started) == 1
    assert EN["compare.not_run"] in said(app)


def test_a_comparison_that_ends_while_the_page_is_drawn_is_opened(
    started: list[Experiment], monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = compared(small_set(), {"BM25": FOUND, "Dense": FOUND}) / "scores.json"
    unfinished, follow = scores.rename(scores.with_name("aside.json")), running.follow

    def ended(*given: Any) -> None:
        if unfinished.exists():
            unfinished.rename(scores)
        follow(*given)

    monkeypatch.setattr(running, "follow", ended)
    app = look()
    assert len(started) == 1
    assert EN["compare.not_run"] not in said(app)
    assert EN["compare.run_again"] in labels(app)


def test_where_all_failed_no_other_k_is_advised() -> None:
    compared(small_set(), {"BM25": None, "Dense": None})
    app = look(view="where")
    assert [info.value for info in app.info] == [EN["why.no_rankings"]]
    assert len(app.error) == 2


def test_one_question_is_sure_of_nothing() -> None:
    asked = QuestionSet("one", PASSAGES, (QUESTIONS[5],))  # two relevant passages
    compared(asked, {"BM25": [[1, 0]], "Dense": [[0]]})
    app = look(measure="recall", k="1")
    (pair,) = app.dataframe[-1].value.to_dict("records")
    assert (pair["difference"], pair["low"], pair["high"]) == (-50.0, -100.0, 100.0)
    table = app.dataframe[1].value
    assert table.loc["BM25", 1] == "50.00 [0.0, 100.0]"
    part = QuestionSet("part", PASSAGES, (QUESTIONS[0],))
    compared(part, {"BM25": [[0]], "Dense": [[1]]})
    table = look(view="where", k="1", data=keep(part).key).dataframe[0].value
    dense = table.set_index("retriever").loc["Dense"]
    assert (dense["difference"], dense["difference_low"], dense["difference_high"]) == (-100.0, -100.0, 100.0)
    assert (dense["low"], dense["high"]) == pytest.approx((0.0, 97.5))


def test_a_failed_first_stage_leaves_the_others_their_figures() -> None:
    data = keep(small_set())
    (found,) = comparison_of({"BM25": FOUND}, small_set(), KS, depth=100).results
    failed = (Result(name, error=RuntimeError("gone")) for name in ("Dense", "Hybrid"))
    kept(data, ["BM25", "Dense", "Hybrid"], small_set(), [found, *failed])
    for view in ("overview", "where", "why", "tune", "kept"):
        app = opened(page, part="all", retrievers="BM25|Dense|Hybrid", view=view)
        assert len(app.error) == 2


@pytest.mark.parametrize("code", ["address", "unreachable", "refused", "busy", "failed"])
def test_what_is_wrong_with_milvus_is_said_in_the_reader_s_words(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = keep(small_set())
    add(data.fingerprint, MilvusSpec(name="Milvus"))
    failure = MilvusError(f"milvus_{code}", "in the program's words", milvus="http://host:1/mine")
    kept(data, ["Milvus"], small_set(), [Result("Milvus", error=failure)])
    (error,) = opened(page, part="all", retrievers="Milvus").error
    told = EN[f"milvus.milvus_{code}"].format(milvus="http://host:1/mine")
    assert plain(told) in error.value
    monkeypatch.setattr("mrc_workbench.workbench.views.ui.words.language", lambda: "en")
    assert search_failure_text(failure) == told  # on the Search page too


@pytest.mark.parametrize("view", ["overview", "where", "why", "tune", "kept", "../x"])
def test_an_address_of_nonsense_opens_the_page(view: str) -> None:
    compared(small_set(), {"BM25": FOUND, "Dense": FOUND})
    nonsense = "k=7&measure=x&slice=x&within=-1&fate=x&of=nobody&quadrant=x&words=(&question=../<script>&explained=x"
    app = look(view=view, **dict(parse_qsl(f"{nonsense}&against=y&lab=x&k1=many&analyzers=x|y&windows=-1")))
    assert not app.error
    assert (app.query_params["k"], app.query_params["measure"]) == ("10", "ndcg")  # the defaults
    if view == "../x":  # the overview
        assert len(app.dataframe[0].value) == 2


def test_names_of_retrievers_are_no_markdown() -> None:
    data = keep(small_set())
    name = "*a* _b_ $c$ :smile: [d](e) <b>"
    add(data.fingerprint, BM25Spec(name=name, analyzer="word"))
    kept(data, [name], small_set(), comparison_of({name: FOUND}, small_set(), KS, depth=100).results)
    app = opened(page, part="all", retrievers=name)
    assert app.pills[0].options[-1] == plain(name) != name
    assert app.pills[0].value == [name]
    assert app.dataframe[0].value["retriever"].tolist() == [name]


def test_a_comparison_on_made_questions_says_so() -> None:
    small = small_set()
    first, *others = small.questions
    found: dict[str, list[list[int]] | None] = dict.fromkeys(NAMES, FOUND)
    compared(replace(small, questions=(replace(first, made="sentence", hidden=True), *others)), found)
    assert "**1 of 6 questions were generated from passages** (Sentence)" in said(look())
    compared(small, found)
    assert "asked by nobody" not in said(look())
