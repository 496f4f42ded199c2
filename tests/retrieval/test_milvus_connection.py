"""Where Milvus is, what is said when it cannot be used, and that nobody reads what opens it."""

import json
import logging
import threading
import time
import traceback
from base64 import b64decode
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest
from filelock import FileLock

from mrc_workbench.data.problems import Failure
from mrc_workbench.data.workspace import workspace
from mrc_workbench.retrieval import milvus_connection as connection
from mrc_workbench.retrieval.comparison.compare import compare, failures, retrievers_of
from mrc_workbench.retrieval.comparison.experiment import Experiment, write_experiment
from mrc_workbench.retrieval.comparison.first_stage import MilvusSpec
from mrc_workbench.retrieval.comparison.store import provenance
from mrc_workbench.retrieval.lexical.bm25 import BM25Options
from mrc_workbench.retrieval.milvus import Milvus, TermField
from mrc_workbench.retrieval.milvus_connection import FILES, MilvusError, Place, place
from tests.doubles import PASSAGES, QUESTIONS, small_set, texts_of
from tests.milvus_server import serving
from tests.programs import free_port

PASSWORD, TOKEN = "pass%20w/rd", "t0ken-nobody-reads"
SPEC = MilvusSpec(name="Milvus", analyzer="bigram")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_SECONDS_TO_CONNECT", 0.5)
    monkeypatch.setattr(connection, "_WAITS", (0.1,))
    monkeypatch.setattr(connection, "_SECONDS_FOR_A_TURN", 0.1)
    monkeypatch.setitem(connection.PATIENCE, "retry_times", 2)


def loaded(at: Place) -> Milvus:
    return Milvus("milvus", len(PASSAGES), [TermField(PASSAGES, BM25Options("bigram"))], at)


@pytest.mark.parametrize(
    ("uri", "token", "wanted"),
    [
        ("", "", Place()),
        ("http://localhost", "", Place("http://localhost:19530")),
        ("https://milvus.example/", "t", Place("https://milvus.example:443", "", "t")),
        ("http://u:p%40@[::1]:7000/mine?x=secret#y", "", Place("http://[::1]:7000", "mine", "u:p@")),
        ("http://u:p@host:1/mine", "t", Place("http://host:1", "mine", "t")),
    ],
)
def test_the_environment_tells_the_place(uri: str, token: str, wanted: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILVUS_URI", uri)
    monkeypatch.setenv("MILVUS_TOKEN", token)
    assert place() == (wanted if uri else Place())


@pytest.mark.parametrize(
    "uri", ["./my.db", "secret@host", "http://u:secret@host:port", "tcp://secret", "http://", "http://[secret"]
)
def test_what_is_no_address_is_said_without_repeating_it(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILVUS_URI", uri)
    with pytest.raises(MilvusError, match="MILVUS_URI") as caught:
        place()
    assert caught.value.code == "milvus_address"
    assert "secret" not in "".join(traceback.format_exception(caught.value))


def test_what_opens_it_is_in_nothing_that_anybody_reads(
    impatient: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("MILVUS_URI", f"http://root:{PASSWORD.replace('/', '%2F')}@127.0.0.1:{free_port()}/mine")
    experiment = Experiment(data="small", ks=(1,), retriever=(SPEC,))
    told = []
    for token in ("", TOKEN):
        monkeypatch.setenv("MILVUS_TOKEN", token)
        comparison = compare(experiment, small_set())
        error = comparison.results[0].error
        assert isinstance(error, MilvusError)
        assert error.code == "milvus_unreachable"
        assert str(error.details["milvus"]) in str(error)
        scores = json.loads(json.dumps(comparison.as_dict()))
        again = failures(scores["retrievers"])["Milvus"]
        assert isinstance(again, Failure)
        assert (again.code, again.details, str(again)) == (error.code, error.details, str(error))
        told += [scores, traceback.format_exception(error), provenance(comparison), repr(place()), place().shown]
    told += [write_experiment(experiment), caplog.text, [path.read_text() for path in tmp_path.rglob("*.json")]]
    words = json.dumps(told)
    assert "127.0.0.1" in words
    for secret in (TOKEN, PASSWORD, "pass w/rd", PASSWORD.replace("/", "%2F"), "w/rd", "w%2Frd"):
        assert secret not in words


def test_what_milvus_says_is_passed_on_without_secrets() -> None:
    at = Place("http://host:1", token="root:p w/d")  # noqa: S106
    assert at.without_secrets("root:p w/d, p w/d and p%20w%2Fd, p%20w/d of root") == "***, *** and ***, *** of root"
    assert Place().without_secrets("as it is") == "as it is"


def test_rankings_are_kept_by_place_and_content_not_by_what_opens_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def key(uri: str, spec: MilvusSpec = SPEC) -> str:
        monkeypatch.setenv("MILVUS_URI", uri)
        (kept,) = retrievers_of(Experiment(data="small", retriever=(spec,)), small_set()).values()
        assert not isinstance(kept, Exception)
        return kept.key

    assert key("http://a:b@host:1") == key("http://c:d@host:1")
    changed = SPEC.model_copy(update={"k1": 2.0})
    assert len({key(""), key("http://host:1"), key("http://host:1", changed), key("http://host:2")}) == 4


@pytest.mark.slow
def test_a_lost_connection_is_waited_for(tmp_path: Path) -> None:
    port = free_port()
    with serving(tmp_path / "lite", port) as address:
        milvus = loaded(Place(address))
        before = milvus.search(texts_of(QUESTIONS), 3)
    again, done = threading.Event(), threading.Event()

    def come_back() -> None:
        time.sleep(1)
        with serving(tmp_path / "lite", port):
            again.set()
            done.wait(60)

    thread = threading.Thread(target=come_back)
    thread.start()
    try:
        assert not again.is_set()
        found = milvus.search(texts_of(QUESTIONS), 3)
        assert again.is_set()
    finally:
        done.set()
        thread.join()
    assert (found.indices == before.indices).all()


@pytest.mark.slow
def test_a_server_that_goes_while_it_is_asked_is_said(impatient: None, tmp_path: Path) -> None:
    with serving(tmp_path / "lite") as address:
        at = Place(address)
        milvus = loaded(at)
    with pytest.raises(MilvusError, match="does not answer") as caught:
        milvus.search(texts_of(QUESTIONS), 3)
    assert (caught.value.code, caught.value.details) == ("milvus_unreachable", {"milvus": address})

    with ExitStack() as server:
        address = server.enter_context(serving(tmp_path / "lite"))

        def use_it_past_its_end() -> None:
            with connection.connected(Place(address), "") as client:
                server.close()
                client.has_collection("any", **connection.PATIENCE)

        with pytest.raises(MilvusError, match="does not answer"):
            use_it_past_its_end()

    with serving(tmp_path / "other") as address, pytest.raises(MilvusError, match="failed") as caught:
        Milvus("milvus", 1, [], Place(address))  # a collection without a vector is none
    assert caught.value.code == "milvus_failed"


class Refusing(grpc.GenericRpcHandler):
    """A server that refuses everybody, and repeats what it was given."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        given = dict(handler_call_details.invocation_metadata).get("authorization", "")

        def refuse(request: bytes, context: grpc.ServicerContext) -> bytes:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, f"not {b64decode(given).decode()}, really")
            return b""

        return grpc.unary_unary_rpc_method_handler(refuse)


def test_a_token_that_is_refused_is_said_at_once_and_not_repeated(caplog: pytest.LogCaptureFixture) -> None:
    server = grpc.server(ThreadPoolExecutor(2), handlers=(Refusing(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with pytest.raises(MilvusError, match="MILVUS_TOKEN") as caught:
            loaded(Place(f"http://127.0.0.1:{port}", token=f"root:{TOKEN}"))
    finally:
        server.stop(None)
    assert caught.value.code == "milvus_refused"
    assert str(caught.value).endswith(": not ***, really")
    assert TOKEN not in "".join(traceback.format_exception(caught.value)) + caplog.text


@pytest.mark.slow
def test_a_file_is_one_process_s_at_a_time(impatient: None) -> None:
    milvus = loaded(Place())
    file = workspace() / "milvus" / f"{milvus.collection}.db"
    with FileLock(file.with_suffix(".lock")):
        with pytest.raises(MilvusError, match="another process") as caught:
            milvus.search(texts_of(QUESTIONS), 3)
        assert (caught.value.code, caught.value.details) == ("milvus_busy", {"milvus": FILES})
    with serving(file), pytest.raises(MilvusError, match="another process") as caught:
        milvus.search(texts_of(QUESTIONS), 3)
    assert caught.value.code == "milvus_busy"
    assert milvus.search(texts_of(QUESTIONS), 3).indices[0, 0] == 0
