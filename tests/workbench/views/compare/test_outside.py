"""External retrievers on the Compare page: enter, try and add an HTTP endpoint; list registered retrievers."""

from collections.abc import Iterator

import pytest
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.store import StoredSet, save_question_set
from mrc_workbench.data.workspace import user_of
from mrc_workbench.retrieval.comparison import experiment as experiments
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import HttpSpec, PluginSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.outside.adapt import measure
from mrc_workbench.workbench.views.choices import choices_for, method_line
from tests.doubles import PASSAGES, small_set
from tests.search_server import CharacterSearch, SearchServer, scored, searching
from tests.workbench.views.compare import worlds
from tests.workbench.views.driving import opened, run, texts


@pytest.fixture
def server() -> Iterator[SearchServer]:
    with searching(PASSAGES) as serving:
        yield serving


def form(server: SearchServer) -> AppTest:
    """Open the form and fill it in for the server, which takes a GET request without headers."""
    app = opened(worlds.page, retrievers="BM25")
    app.selectbox(key="add_kind").set_value("http")
    run(app).segmented_control(key="http_method_plain").set_value("GET")
    run(app)
    app.text_input(key="http_url_plain").set_value(f"{server.address}/search?q={{query}}&k={{k}}")
    app.text_input(key="http_ids_plain").set_value("hits.hits[*]._id")
    app.text_input(key="http_scores_plain").set_value("hits.hits[*]._score")
    return run(app)


def test_tries_and_adds_an_endpoint(data: StoredSet, server: SearchServer, started: list[Experiment]) -> None:
    app = worlds.press(form(server), "http_try")
    assert not app.error
    question = small_set().questions[0].text
    expected = scored(PASSAGES, question, 5)
    (hits_table,) = [item.value for item in app.dataframe if "passage" in item.value.columns]
    assert hits_table[["id", "score"]].to_records(index=False).tolist() == expected
    assert len(server.requests) == 1
    assert experiments.added_retrievers(data.fingerprint) == []
    app = worlds.press(app, "http_add")
    (spec,) = experiments.added_retrievers(data.fingerprint)
    assert isinstance(spec, HttpSpec)
    assert spec.name == f"HTTP · {server.address.removeprefix('http://')}"
    assert app.query_params["retrievers"] == f"BM25|{spec.name}"
    assert [item.name for item in started[-1].retriever] == ["BM25", spec.name]
    assert len(server.requests) == 1


def test_displays_precise_errors(server: SearchServer) -> None:
    app = form(server)
    for field, value, says in (
        ("url", "search.example.org", "must begin with http://"),
        ("url", "http://127.0.0.1:1/{query}", "Cannot connect"),
        ("url", "http://127.0.0.1:1/", "Put {query} into the address"),
        ("ids", "hits[", "not a JMESPath expression"),
        ("ids", "", "not a JMESPath expression"),
        ("ids", "hits.total", "gives no list. The answer has: hits"),
    ):
        box = app.text_input(key=f"http_{field}_plain")
        valid = box.value
        box.set_value(value)
        (error,) = worlds.press(app, "http_try").error
        assert says in error.value.replace("\\", ""), (field, value)
        app.text_input(key=f"http_{field}_plain").set_value(valid)


def test_reports_strict_server_error_and_unknown_ids(server: SearchServer) -> None:
    app = form(server)
    app.text_input(key="http_url_plain").set_value(f"{server.address}/search?query={{query}}")
    app = worlds.press(run(app), "http_try")
    (error,) = app.error
    assert "returned status 400" in error.value
    assert "expected q and k" in error.value
    server.replacement = lambda *_: (200, {}, b'{"hits": {"hits": [{"_id": "doc-*1*", "_score": 1}]}}')
    app = worlds.press(form(server), "http_try")
    (warning,) = [element.value.replace("\\", "") for element in app.warning if "doc" in element.value]
    assert "1 of 1 ids are not in this dataset, for example doc-*1*. Its ids are like p1." in warning


def test_presets_fill_the_form(server: SearchServer) -> None:
    app = form(server)
    app.selectbox(key="http_preset").set_value("elasticsearch")
    run(app)
    assert "_search" in app.text_input(key="http_url_elasticsearch").value
    assert '"match"' in app.text_area(key="http_body_elasticsearch").value
    assert app.text_input(key="http_ids_elasticsearch").value == "hits.hits[*]._id"


def test_names_secret_by_its_variable(data: StoredSet, server: SearchServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.required_key = "Bearer s3cret-value"
    monkeypatch.setenv("MRC_SECRET_TESTS", server.required_key)
    app = form(server)
    app.text_input(key="http_header_plain").set_value("x-key")
    app.text_input(key="http_variable_plain").set_value("MRC_SECRET_TESTS")
    app = worlds.press(run(app), "http_try")
    assert not app.error
    worlds.press(app, "http_add")
    (spec,) = experiments.added_retrievers(data.fingerprint)
    assert dict(spec)["secret_headers"] == {"x-key": "MRC_SECRET_TESTS"}


def test_rejects_addresses_of_users_unless_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_USER", user_of("https://issuer", "someone"))
    save_question_set(small_set())
    app = opened(worlds.page, retrievers="BM25")
    app.selectbox(key="add_kind").set_value("http")
    run(app)
    assert "http_add" not in [button.key for button in app.button]
    assert any("administrator" in info.value for info in app.info)
    monkeypatch.setenv("MRC_USER_ADDRESSES", "1")
    run(app)
    assert "http_add" in [button.key for button in app.button]
    assert "http_variable_plain" not in [element.key for element in app.text_input]


def compared(data: StoredSet, spec: Spec) -> AppTest:
    """Store the comparison of BM25 with a retriever and open it."""
    worlds.compared(data, "BM25", spec.name)
    return opened(worlds.page, retrievers=f"BM25|{spec.name}")


class WithUnknown(CharacterSearch):
    def search(self, query: str, k: int) -> list[tuple[str, int]]:
        return [*super().search(query, k), ("zzz", 0)]


def test_lists_registered_retriever_and_displays_its_results(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MRC_RETRIEVERS", f"Theirs={__name__}:WithUnknown,BM25={__name__}:WithUnknown")
    choices = choices_for(data)
    assert choices.specs["Theirs"] == PluginSpec(name="Theirs", entry="Theirs")
    assert choices.specs["BM25 (2)"] == PluginSpec(name="BM25 (2)", entry="BM25")
    assert "Theirs" not in choices.default_names
    assert method_line(choices.specs["Theirs"], choices) == "Theirs: a retriever installed here (Theirs)"
    page_text = texts(compared(data, choices.specs["Theirs"]))
    assert "Half of the requests took" in page_text
    assert "Results that are not in this dataset: 6 (for example zzz)" in page_text


def test_displays_python_results_with_latency(data: StoredSet) -> None:
    spec = experiments.store_measured(measure(CharacterSearch(PASSAGES), small_set(), name="Mine"), small_set())
    app = compared(data, spec)
    (table,) = [element.value for element in app.dataframe if {"per_question", "recall@1"} <= {*element.value.columns}]
    assert table.set_index("retriever")["per_question"].notna().all()


@pytest.mark.parametrize("depth", [0, 100])
def test_reports_unused_results_and_unknown_depth(data: StoredSet, depth: int) -> None:
    recorded = experiments.RunMeasurements(seconds_per_query=0.1, depth=depth, unknown_passages=6, rising_scores=2)
    lines = "".join(f"{question.id} Q0 {PASSAGES[0].id} 1 1 x\n" for question in small_set().questions)
    app = compared(data, experiments.add_run(small_set(), "Mine", lines.encode(), "mine.trec", recorded))
    page_text = texts(app)
    assert "Skipped lines with passages that are not in this dataset: 6." in page_text
    assert "Questions whose first result has the lowest score: 2." in page_text
    assert ("returned too few results" in page_text) is (depth == 0)
    assert "at most 1 passages per question" not in page_text
    if not depth:
        app = opened(worlds.page, retrievers="Mine", measure="recall", k="1")
        assert "at most 1 passages per question" in texts(app)


def test_displays_langchain_retriever(data: StoredSet, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = "tests.retrieval.outside.test_libraries:LetterRetriever.for_passages"
    monkeypatch.setenv("MRC_RETRIEVERS", f"LangChain={entry}")
    app = compared(data, choices_for(data).specs["LangChain"])
    assert "LangChain" in app.pills[0].value
    assert not app.error
