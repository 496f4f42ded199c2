"""The retrievers of `compare`: names, order, combinations and failures."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import mrc_workbench as mrc
from mrc_workbench.api.values import ApiError
from mrc_workbench.retrieval.comparison.experiment import added_retrievers, read_experiment, write_experiment
from mrc_workbench.retrieval.comparison.multistage import UnknownRetrieverError
from mrc_workbench.retrieval.comparison.store import get_comparison
from mrc_workbench.retrieval.report.report import report

pytestmark = pytest.mark.usefixtures("stored_work")
Search = Callable[[str, int], Any]


def compare(retrievers: Any, **options: Any) -> mrc.ComparisonResult:
    return mrc.compare("sample", retrievers, progress=False, **options)


@pytest.fixture
def ids() -> list[str]:
    return [str(id_) for id_ in mrc.load("sample").passages.index]


class Mine:
    """Returns the same passages for every question."""

    def __init__(self, ids: list[str], name: str = "mine") -> None:
        self.name = name
        self._ids = ids

    def search(self, query: str, k: int) -> list[tuple[str, float]]:
        del query
        return [(id_, 1 / rank) for rank, id_ in enumerate(self._ids[:k], start=1)]


def _raises(query: str, k: int) -> Any:
    del query
    raise RuntimeError(f"kaboom {k}")


def _answering(results: Any) -> Search:
    def search(query: str, k: int) -> Any:
        del query, k
        return results

    return search


FAILING: dict[str, Any] = {
    "raises": _raises,
    "scores without a number": _answering([("p1", float("nan"))]),
    "unknown ids": _answering([("zzz", 1.0)]),
    "no results": _answering([]),
    "None": _answering(None),
    "run of other ids": {"zzz": {"yyy": 1.0}},
    "run without numbers": {"q1": {"p1": float("nan")}},
    "table without scores": pd.DataFrame({"query_id": ["q1"], "doc_id": ["p1"]}),
}


@pytest.mark.parametrize("name", FAILING)
def test_continues_comparison_after_failed_retriever(name: str) -> None:
    result = compare({name: FAILING[name], "bm25": "bm25"})
    assert result.names == ["bm25"]
    assert result.failures.keys() == {name}
    assert result.failures[name]
    assert f"failed: {name}" in repr(result)
    assert name not in {spec.name for spec in added_retrievers(result.dataset.question_set.fingerprint)}


@pytest.mark.slow
def test_stores_and_reports_failure(tmp_path: Path, ids: list[str]) -> None:
    result = compare({"broken": _raises, "mine": Mine(ids), "bm25": "bm25"})
    assert "RuntimeError: kaboom 100" in result.failures["broken"]
    opened = mrc.open_comparison(result.key)
    assert opened.failures == result.failures
    assert opened.names == ["mine", "bm25"]
    stored = get_comparison(result.key)
    assert stored is not None
    assert stored.retrievers == ("broken", "mine", "bm25")
    assert "kaboom" in report(compare({"broken": _raises, "bm25": "bm25"}).comparison, "en")
    path = tmp_path / "experiment.toml"
    path.write_text(write_experiment(result.comparison.experiment), encoding="utf-8")
    assert read_experiment(path) == result.comparison.experiment
    assert mrc.compare(str(path), progress=False).failures == result.failures


def test_fails_retriever_that_combines_failed_one() -> None:
    pair = {"kind": "hybrid", "name": "Pair", "retrievers": ["bm25", "broken"]}
    result = compare({"broken": _raises, "Pair": pair})
    assert result.failures.keys() == {"broken", "Pair"}
    assert "kaboom" in result.failures["Pair"]


@pytest.mark.parametrize(
    ("retrievers", "message"),
    [
        ({"broken": _raises}, r"broken failed: .*kaboom"),
        ({"a": _raises, "b": {"q": {"p": 1.0}}}, r"a failed: .*kaboom"),
        ({"kind": "dense", "name": "Gone", "model": "no/such folder"}, r"Gone failed: .*no/such folder"),
    ],
)
def test_raises_if_every_retriever_fails(retrievers: Any, message: str) -> None:
    with pytest.raises(ApiError, match=message) as caught:
        compare(retrievers)
    assert caught.value.__cause__ is not None


def test_keeps_given_order_in_tables(ids: list[str]) -> None:
    run = {question.id: {ids[0]: 1.0} for question in mrc.load("sample").question_set.questions}
    result = compare({"z": Mine(ids), "run": run, "baseline": "bm25", "a": Mine(ids[::-1])})
    assert result.names == ["z", "run", "baseline", "a"]
    assert result.table().index.tolist() == result.names
    assert mrc.open_comparison(result.key).names == result.names


@pytest.mark.parametrize("is_last", [False, True])
def test_combines_objects_and_runs_by_name(ids: list[str], *, is_last: bool) -> None:
    pair = {"kind": "hybrid", "name": "Pair", "retrievers": ["BM25", "mine"], "top_k": 150}
    items: list[Any] = [Mine(ids), pair]
    result = compare(items[::-1] if is_last else items, ks=[1, 10])
    assert result.names == (["BM25", "mine", "Pair"] if is_last else ["mine", "BM25", "Pair"])
    assert result.failures == {}
    assert result.comparison.rankings["mine"].indices.shape[1] == 150  # the depth of the hybrid


def test_combines_and_suggests_registered_retrievers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_RETRIEVERS", "letters=tests.search_server:CharacterSearch")
    result = compare({"kind": "hybrid", "name": "Pair", "retrievers": ["bm25", "letters"]})
    assert result.names == ["BM25", "letters", "Pair"]
    assert result["letters"].search("자격루", k=2)["rank"].tolist() == [1, 2]
    with pytest.raises(UnknownRetrieverError, match="did you mean 'letters'"):
        compare("leters")


@pytest.mark.parametrize("path", ["nope.trec", "no/such/run", "experiment.tml", Path("nope")])
def test_reports_missing_file_and_folder(path: str | Path, tmp_path: Path) -> None:
    with pytest.raises(ApiError, match=f"there is no file '{path}'"):
        compare([path])
    with pytest.raises(ApiError, match="is a folder; give the path of a TREC run"):
        compare([tmp_path])


def test_numbers_unnamed_objects(ids: list[str]) -> None:
    functions = [lambda query, k: ids[:k] if query else [], lambda query, k: ids[-k:] if query else []]
    mine = Mine(ids)
    result = compare([*functions, mine, mine, Mine(ids), Mine(ids, "BM25"), "bm25"])
    assert result.names == ["function", "function 2", "mine", "mine 2", "BM25 2", "BM25"]


def test_names_dictionaries_by_their_settings() -> None:
    result = compare(["bm25", {"kind": "bm25"}, {"kind": "bm25", "k1": 1.6}, {"kind": "bm25", "k1": 1.2, "b": 0.7}])
    assert result.names == ["BM25", "bm25 (k1=1.6)", "bm25 (k1=1.2, b=0.7)"]
    assert result.find("bm25") == "BM25"


PAIR = {"kind": "hybrid", "name": "Pair", "retrievers": ["bm25", "mien"]}


@pytest.mark.parametrize(
    ("retrievers", "message"),
    [
        ("bm52", "did you mean 'bm25'"),
        ("late", "needs a pretrained model"),
        ([PAIR, Mine([])], "did you mean 'mine'"),
        ({"kind": "bm25", "k3": 1}, "k3: unknown field"),
        ({"kind": "bm52"}, "no kind of retriever is called 'bm52'; did you mean 'bm25'"),
        ([{"kond": "bm25"}], "needs its kind"),
        (["bm25", {"kind": "bm25", "name": "BM25", "b": 0.9}], "two retrievers are named"),
        ([], "at least one retriever"),
        ({"": Mine([]), "b": "bm25"}, "needs a name"),
        *((["bm25", item], f"{type(item).__name__} is not a retriever") for item in (None, 5, object(), ["bm25"])),
    ],
)
def test_rejects_unknown_retrievers(retrievers: Any, message: str) -> None:
    with pytest.raises((UnknownRetrieverError, ApiError), match=message):
        compare(retrievers)


def test_suggests_known_kinds_of_experiment_file(tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text('data = "sample"\n[[retriever]]\nname = "B"\nkind = "bm52"\n')
    with pytest.raises(ValueError, match=r"retriever.0: no kind of retriever is called 'bm52'; did you mean 'bm25'"):
        mrc.compare(str(path), progress=False)


class Noisy(Mine):
    def search(self, query: str, k: int) -> list[tuple[str, float]]:
        del query
        hits = [(id_, float(rank)) for rank, id_ in enumerate(self._ids[: k - 3], start=1)]
        return [*hits, ("zzz", 1e3), (self._ids[0], 1e4)]


def test_reports_result_notes_as_warnings(ids: list[str]) -> None:
    result = compare(["bm25", Noisy(ids, "noisy")])
    n_questions = len(result.question_set.questions)
    expected = [
        f"noisy: {n_questions:,} results name passages that are not in the dataset",
        f"noisy: {n_questions:,} results repeat a passage",
        f"noisy: for {n_questions:,} questions the first result has the lowest score",
    ]
    for result_or_stored in (result, mrc.open_comparison(result.key)):
        text = "\n".join(result_or_stored.warnings)
        assert all(line in text for line in expected)
        assert all(line in result_or_stored._repr_html_() for line in expected)


def test_reports_unknown_ids_of_run_as_warnings(ids: list[str]) -> None:
    run = {question.id: {ids[0]: 1.0, "zzz": 2.0} for question in mrc.load("sample").question_set.questions}
    result = compare({"run": run, "bm25": "bm25"})
    assert any(f"run: {len(run):,} results name passages" in warning for warning in result.warnings)
    assert result.costs().loc["run"].isna().all()


def test_reports_latency_of_objects_in_costs(ids: list[str]) -> None:
    costs = compare({"mine": Mine(ids), "bm25": "bm25"}).costs()
    assert costs.loc["mine", "ms_per_question"] > 0
    assert costs.loc["mine", ["index_seconds", "index_bytes"]].isna().all()
