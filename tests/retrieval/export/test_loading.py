"""A folder's `engine.py` against engines that refuse what the real ones refuse."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from mrc_workbench.data.jobs.processes import FORKS
from mrc_workbench.retrieval.comparison.compare import Comparison
from mrc_workbench.retrieval.export.engines import engine_config
from mrc_workbench.retrieval.export.folder import export_retriever, readme
from mrc_workbench.retrieval.export.fusion import ExportTarget
from mrc_workbench.retrieval.export.scripts.engine import CONNECTIONS, fill_template
from tests.doubles import PASSAGES, QUESTIONS, small_set
from tests.engines.base import Received, RefusedError, StubEngine, serving
from tests.engines.elastic import Elastic, Elasticsearch
from tests.engines.opensearch import OpenSearch
from tests.engines.vespa import Vespa
from tests.engines.weaviate import Weaviate
from tests.models.worlds import sharpened
from tests.programs import run_module
from tests.retrieval.compared import BIGRAMS
from tests.retrieval.export.scripts import END
from tests.retrieval.export.test_engines import INDEX, Keywords, mix_for
from tests.retrieval.export.test_folder import comparison_of, lines, run_in_this_process, run_scripts
from tests.tiny_models import build_bi_encoder, build_sparse_encoder

pytestmark = pytest.mark.slow
DENSE = {"name": "dense", "kind": "dense", "model": "starter"}
MIX = {"name": "mix", "kind": "hybrid", "retrievers": ["bigrams", "dense"]}
LATE = {"name": "late", "kind": "late", "model": "bi", "dimensions": 16, "precision": "float32"}
SPARSE = {"name": "sparse", "kind": "sparse", "model": "splade", "precision": "float32"}
LATE_MIX = {"name": "mix", "kind": "hybrid", "retrievers": ["bigrams", "late"]}
MIXES = {
    "scores": MIX | {"fusion": "min-max", "weights": [0.7, 0.3]},
    "deviations": MIX | {"fusion": "z-score"},
    "ranks": MIX | {"fusion": "rrf"},
    "weighted ranks": MIX | {"fusion": "rrf", "weights": [0.7, 0.3]},
    "late scores": LATE_MIX | {"fusion": "min-max", "weights": [0.4, 0.6]},
    "late ranks": LATE_MIX | {"fusion": "rrf"},
    "sparse scores": MIX
    | {"retrievers": ["bigrams", "sparse", "late"], "fusion": "min-max", "weights": [0.2, 0.5, 0.3]},
    "sparse ranks": MIX | {"retrievers": ["bigrams", "sparse"], "fusion": "rrf"},
}
Answers = dict[tuple[ExportTarget, str], list[dict[str, Any]]]
Folders = Callable[[ExportTarget, str], Path]
WITHOUT_TOKENS = {ExportTarget.WEAVIATE}  # engines that get no late interaction and no term weights
HEADERS = {"ApiKey 열쇠": False, "ApiKey a\r\nX-Other: b": False, "ApiKey right\n": True}
ENGINES: dict[ExportTarget, Callable[[Path], StubEngine]] = {
    ExportTarget.ELASTICSEARCH: lambda _: Elasticsearch(),
    ExportTarget.OPENSEARCH: lambda _: OpenSearch(),
    ExportTarget.VESPA: lambda folder: Vespa(schema=next((folder / "application/schemas").glob("*.sd")).read_text()),
    ExportTarget.WEAVIATE: lambda _: Weaviate(),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """The folder of an engine for a mix or a single signal; each is written once."""
    base_folder = tmp_path_factory.mktemp("folders")
    late = sharpened(build_bi_encoder(base_folder / "bi"))
    sparse = build_sparse_encoder(base_folder / "splade")
    signals = [DENSE, LATE | {"model": str(late)}, SPARSE | {"model": str(sparse)}]

    @cache
    def comparison_of_mix(mix: str) -> Comparison:
        spec = MIXES.get(mix, {})
        used = {mix, *spec.get("retrievers", ())}  # type: ignore[call-overload]
        parts = [signal for signal in signals if signal["name"] in used]
        return comparison_of(BIGRAMS, *parts, *([spec] if spec else []))

    @cache
    def folder_of(engine: ExportTarget, mix: str) -> Path:
        folder = base_folder / f"{engine.value} {mix}"
        export_retriever(comparison_of_mix(mix), small_set(), "mix" if mix in MIXES else mix, engine, folder)
        return folder

    return folder_of


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def run_against(stub: StubEngine, folder: Path, *commands: str) -> subprocess.CompletedProcess[str]:
    """Run the commands of a folder's script against a stub, one after the other."""
    with serving(stub) as url:
        return run_in_this_process(*([str(folder), url, *command.split()] for command in commands))


def assert_expected_ndcg(checked: str) -> None:
    _, measured, _, expected, *_ = checked.split()
    assert float(measured) == pytest.approx(float(expected), abs=1e-4)


LOADED = [
    (engine, mix)
    for engine in ENGINES
    for mix in (*MIXES, "bigrams", "dense", "late", "sparse")
    if engine not in WITHOUT_TOKENS or not mix.startswith(("late", "sparse"))
]


@pytest.mark.parametrize(("engine", "mix"), LOADED)
def test_loads_and_checks_folder(engine: ExportTarget, mix: str, folders: Folders) -> None:
    folder = folders(engine, mix)
    done = run_against(ENGINES[engine](folder), folder, "load", "check", "load --recreate", "check", "load")
    assert len(done.stdout.split(END)) == 5, done.stderr
    loaded, checked, *again, _ = done.stdout.split(END)
    assert again == [loaded, checked]
    assert loaded == f"{len(PASSAGES)} passages are in {engine.value}\n"
    if engine is not ExportTarget.VESPA or mix == "sparse":  # all else the stub ranks in its own way
        assert_expected_ndcg(checked)
    assert done.returncode == 1  # the index is there
    assert done.stderr.endswith("`python engine.py load --recreate` deletes it and loads it again\n")


CASES = [
    *(case for case in LOADED if case[1] in ("scores", "sparse scores")),
    *((ExportTarget.MILVUS, mix) for mix in ("sparse", "sparse ranks")),
]


@pytest.fixture(scope="module")
def answers(folders: Folders) -> Answers:
    """The hits for a new question in each engine, in a process that has imported the libraries of the models."""
    calls = []
    with ExitStack() as stack:
        for engine, mix in CASES:
            folder = folders(engine, mix)
            url = stack.enter_context(serving(ENGINES[engine](folder))) if engine in ENGINES else ""
            calls += [(str(folder), url, "load"), (str(folder), url, "ask", QUESTIONS[0].text)]
        done = run_module("tests.retrieval.export.scripts", json.dumps(calls))
    assert (done.returncode, done.stderr) == (0, "")
    outputs = done.stdout.split(END)[1:-1:2]
    return {case: [*map(json.loads, output.splitlines())] for case, output in zip(CASES, outputs, strict=True)}


@pytest.mark.parametrize(("engine", "mix"), CASES)
def test_asks_new_question(engine: ExportTarget, mix: str, answers: Answers) -> None:
    hits = answers[engine, mix]
    assert hits[0]["passage"] == "p1" or mix != "scores"  # the other models are random
    assert all(set(hit) == {"row", "passage", "title", "score"} for hit in hits)
    scores = [hit["score"] for hit in hits]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.usefixtures("answers")
def test_milvus_searches_sparse_encoder_terms(folders: Folders) -> None:
    done = run_scripts(*((folders(ExportTarget.MILVUS, mix), "", "check") for mix in ("sparse", "sparse ranks")))
    assert done.returncode == 0, done.stderr
    for checked in done.stdout.split(END)[:-1]:
        assert_expected_ndcg(checked)


@pytest.mark.parametrize(
    ("mix", "version", "licence", "options", "message"),
    [
        ("ranks", (8, 16), "trial", "", ""),
        ("weighted ranks", (9, 1), "trial", "", "unknown field [retriever]"),
        ("weighted ranks", (9, 2), "trial", "", ""),
        ("scores", (8, 17), "trial", "", "unknown field [linear]"),
        ("scores", (8, 18), "trial", "", ""),
        ("scores", (9, 2), "basic", "", "This licence does not include the mixed query: add --free"),
        ("scores", (8, 16), "basic", "--free", ""),
        ("weighted ranks", (8, 16), "basic", "--free", ""),
        ("dense", (8, 16), "basic", "", ""),
        ("dense", (8, 16), "basic", "--free", "--free is for several signals in Elasticsearch"),
        ("late scores", (9, 0), "enterprise", "", ""),
        ("late scores", (8, 19), "enterprise", "", "No handler for type [rank_vectors]"),
        ("late scores", (9, 2), "platinum", "", "README.md says which licence is needed"),
        ("late scores", (9, 2), "enterprise", "--free", "without late interaction: leave it out"),
        ("late", (9, 0), "enterprise", "", ""),
        ("sparse", (8, 16), "basic", "", ""),
        ("sparse ranks", (8, 16), "basic", "--free", ""),
    ],
)
def test_elasticsearch_versions_and_licences(
    *, mix: str, version: tuple[int, int], licence: str, options: str, message: str, folders: Folders
) -> None:
    folder = folders(ExportTarget.ELASTICSEARCH, mix)
    done = run_against(Elasticsearch(version=version, licence=licence), folder, "load", f"check {options}")
    assert (done.returncode == 0, message in done.stderr) == (not message, True), done.stderr
    if not message:
        assert_expected_ndcg(done.stdout.split(END)[1])


def test_readme_states_version_and_licence(folders: Folders) -> None:
    by_score = mix_for(ExportTarget.ELASTICSEARCH)
    by_rank = replace(by_score, by_rank=True)
    mixes = (by_score, by_rank, replace(by_rank, weights=(0.5, 0.5)), mix_for(ExportTarget.ELASTICSEARCH, alone=1))
    texts = [readme("mix", item.engine, small_set(), [], mix=item).split("## Use\n\n")[1] for item in mixes]
    needs = [text.split("\n")[0] for text in texts]
    versions = ("8.18", "9.2", "8.16", "8.16")
    assert [item.split()[:2] for item in needs] == [["Elasticsearch", version] for version in versions]
    assert ["--free" in item for item in needs] == [True, True, True, False]
    text = (folders(ExportTarget.ELASTICSEARCH, "late scores") / "README.md").read_text(encoding="utf-8")
    assert "Elasticsearch 9.0 or newer, with a trial or Enterprise licence" in text
    assert "--free" not in text


def test_explains_errors(folders: Folders) -> None:
    folder = folders(ExportTarget.ELASTICSEARCH, "scores")
    no_addresses = ("file:///etc/passwd", "http://[::1", "http://127.0.0.1:9 /x")
    messages = dict.fromkeys(no_addresses, "ENGINE_URL is an http:// or https:// address")
    messages["http://127.0.0.1:9"] = "no elasticsearch answers at http://127.0.0.1:9"
    for url, words in messages.items():
        for command in ("load", "check"):
            done = run_in_this_process([str(folder), url, command])
            assert (done.returncode, words in done.stderr, "Traceback" in done.stderr) == (1, True, False), done.stderr
    answers = run_scripts((folder, "", "ask", "?"), packages=False)  # without the workbench
    assert answers.stderr.startswith("`ask` needs the workbench: set PYTHONPATH to its folder")
    done = run_against(Elasticsearch(authorization="ApiKey right"), folder, "load")
    assert (done.returncode, "Set ENGINE_AUTHORIZATION" in done.stderr) == (1, True)


@pytest.mark.parametrize("engine", ENGINES)
def test_reports_no_metric_before_loading(engine: ExportTarget, folders: Folders) -> None:
    folder = folders(engine, "scores")
    done = run_against(ENGINES[engine](folder), folder, "check")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith("If the passages are not loaded, run `python engine.py load` first\n")


@pytest.mark.parametrize(("header", "is_sent"), HEADERS.items())
def test_sends_only_valid_header(header: str, is_sent: bool, folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_AUTHORIZATION", header)
    folder = folders(ExportTarget.ELASTICSEARCH, "scores")
    done = run_against(Elasticsearch(authorization="ApiKey right"), folder, "load")
    is_explained = "ENGINE_AUTHORIZATION is one line" in done.stderr
    assert (done.returncode, is_explained) == ((0, False) if is_sent else (1, True)), done.stderr


@dataclass
class Interrupting(StubEngine):
    """Presses Ctrl-C while the script waits for its first answer."""

    script: int = 0

    def answer(self, request: Received) -> Any:
        os.kill(self.script, signal.SIGINT)
        raise RefusedError(404, request.path)


@pytest.mark.skipif(not FORKS, reason="signals are those of Linux")
def test_ctrl_c_stops_script_without_traceback(folders: Folders) -> None:
    stub = Interrupting()
    folder = folders(ExportTarget.ELASTICSEARCH, "scores")
    run = "import os, runpy, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    run += "sys.stdin.readline(); sys.argv = ['engine.py', 'load']; runpy.run_path('engine.py', run_name='__main__')"
    with serving(stub) as url:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        environment = {**os.environ, "ENGINE_URL": url}
        with subprocess.Popen([sys.executable, "-c", run], cwd=folder, env=environment, **pipes) as process:
            stub.script = process.pid
            _, stderr = process.communicate("\n", timeout=60)
    assert process.returncode == 130
    assert stderr == "Stopped. After an unfinished load, `load --recreate` begins again.\n"


def certificate(folder: Path) -> tuple[str, str]:
    """A certificate for 127.0.0.1 that is its own authority, and its key."""
    path = str(folder / "certificate.pem")
    key = str(folder / "key.pem")
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=engine -addext subjectAltName=IP:127.0.0.1"
    subprocess.run([*command.split(), "-out", path, "-keyout", key], check=True, capture_output=True)
    return path, key


def test_uses_custom_certificate_authority(folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folders(ExportTarget.ELASTICSEARCH, "scores")
    own = certificate(tmp_path)
    monkeypatch.setenv("ENGINE_AUTHORIZATION", "Basic ZWxhc3RpYzp4")
    with serving(Elasticsearch(authorization="Basic ZWxhc3RpYzp4"), own) as url:
        unknown = run_in_this_process([str(folder), url, "load"])
        monkeypatch.setenv("ENGINE_CA", own[0])
        known = run_in_this_process([str(folder), url, "load"])
        monkeypatch.setenv("ENGINE_CA", str(tmp_path / "missing.pem"))
        missing = run_in_this_process([str(folder), url, "load"])
    assert "is not trusted: set ENGINE_CA to the file of its certificate authority" in unknown.stderr
    assert (known.returncode, missing.returncode) == (0, 1), known.stderr
    assert "ENGINE_CA names no file of certificates" in missing.stderr
    assert "Traceback" not in unknown.stderr + missing.stderr


@pytest.mark.parametrize("engine", ENGINES)
def test_rejected_document_stops_loading(engine: ExportTarget, folders: Folders, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(folders(engine, "scores"), folder)
    *others, last = lines(folder / "documents.jsonl")
    document = last.get("fields", last)
    (name,) = (name for name in document if name.startswith("vector"))
    document[name] = {"values": [1.0]} if engine is ExportTarget.VESPA else [1.0]
    write_lines(folder / "documents.jsonl", [*others, last])
    done = run_against(ENGINES[engine](folder), folder, "load")
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
    assert re.search(r"dims|dimension|length|size", done.stderr)


@dataclass
class SlowVespa(Vespa):
    """Takes a moment for each document, counts how many are sent at once, and refuses one."""

    refused_row: int = -1
    running: int = 0
    most: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def operated(self, request: Received, key: str | None) -> Any:
        if request.method != "POST":
            return super().operated(request, key)
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
        time.sleep(0.02)
        with self.lock:
            self.running -= 1
        if key == str(self.refused_row):
            raise RefusedError(507, {"message": "External feed is blocked: disk is full"})
        return super().operated(request, key)


def test_vespa_loads_concurrently_and_stops_after_refusal(folders: Folders, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    shutil.copytree(folders(ExportTarget.VESPA, "bigrams"), folder)
    first = lines(folder / "documents.jsonl")[0]
    documents = [first | {"fields": first["fields"] | {"row": row}} for row in range(250)]
    write_lines(folder / "documents.jsonl", documents)
    schema = next((folder / "application/schemas").glob("*.sd")).read_text()
    stub = SlowVespa(schema=schema)
    refusing = SlowVespa(schema=schema, refused_row=30)
    done = run_against(stub, folder, "load")
    assert (done.returncode, len(stub.documents)) == (0, 250), done.stderr
    assert 1 < stub.most <= CONNECTIONS
    done = run_against(refusing, folder, "load")
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
    assert "507" in done.stderr
    assert "disk is full" in done.stderr
    assert 30 <= len(refusing.documents) < 30 + 6 * CONNECTIONS


def test_vespa_documents_have_feed_format(folders: Folders) -> None:
    for row, operation in enumerate(lines(folders(ExportTarget.VESPA, "scores") / "documents.jsonl")):
        assert set(operation) == {"put", "fields"}
        assert re.fullmatch(rf"id:mrc:passages_\w+::{row}", operation["put"])


def test_rejects_late_interaction_before_opensearch_3_3(folders: Folders) -> None:
    folder = folders(ExportTarget.OPENSEARCH, "late")
    done = run_against(OpenSearch(version=(3, 2)), folder, "load", "check")
    assert (done.returncode, "unknown call" in done.stderr) == (1, True)
    assert "OpenSearch 3.3 or newer" in (folder / "README.md").read_text(encoding="utf-8")


INDEX_BODY = {"mappings": {"dynamic": "strict", "properties": {"row": {"type": "integer"}}}}


@pytest.mark.parametrize(
    ("method", "path", "body", "form", "status", "message"),
    [
        ("POST", "/i/_refresh", "{}", "application/json", 400, "does not support having a body"),
        ("DELETE", "/i", "{}", "application/json", 400, "does not support having a body"),
        ("PUT", "/i", json.dumps(INDEX_BODY), "application/json", 400, "already exists"),
        ("PUT", "/j", json.dumps(INDEX_BODY), "text/plain", 406, "Content-Type"),
        ("PUT", "/j?pretend=1", json.dumps(INDEX_BODY), "application/json", 400, "unrecognized parameter"),
        ("POST", "/i/_bulk", '{"index": {"_id": "1"}}\n{"row": 1}', "application/x-ndjson", 400, "newline"),
        ("POST", "/i/_search", '{"size": 1, "sizes": 2}', "application/json", 400, "Unknown key"),
        ("POST", "/none/_search", '{"size": 1}', "application/json", 404, "no such index"),
    ],
)
@pytest.mark.parametrize("engine", [Elasticsearch, OpenSearch])
def test_stubs_reject_what_engines_reject(
    *, engine: type[Elastic], method: str, path: str, body: str, form: str, status: int, message: str
) -> None:
    stub = engine()
    (name, _, query) = path.partition("?")
    stub.create("i", INDEX_BODY)
    params = dict(pair.split("=") for pair in query.split("&") if pair)
    with pytest.raises(RefusedError) as caught:
        stub.answer(Received(method, name, params, {"Content-Type": form}, body.encode()))
    assert (caught.value.status, message in str(caught.value.content)) == (status, True)


def test_omits_zero_vector_from_query() -> None:
    values = {"terms": "서울", "vector": [0.0] * Keywords().vectors.shape[1]}
    for engine in (ExportTarget.ELASTICSEARCH, ExportTarget.OPENSEARCH):
        config = engine_config(mix_for(engine), INDEX)
        assert config.query
        with_zeros = json.dumps(fill_template(config.query.body, values, config.empty_queries))
        assert ("match_none" in with_zeros, "query_vector" in with_zeros) == (True, False)
        known = values | {"vector": [1.0] * len(values["vector"])}
        assert "match_none" not in json.dumps(fill_template(config.query.body, known, config.empty_queries))
