"""Milvus finds what the local retrievers find, with their scores: alone, through an experiment, on KorQuAD."""

import json
import logging
import os
import threading
import time
import traceback
from base64 import b64decode
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import grpc
import numpy as np
import pytest
from filelock import FileLock

from mrc_workbench.data.passages import Passages
from mrc_workbench.data.problems import Failure
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.records import Passage
from mrc_workbench.data.text.analysis import tokens_of
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.data.workspace import workspace
from mrc_workbench.retrieval import milvus_connection as connection
from mrc_workbench.retrieval.combine import Fusion, Hybrid
from mrc_workbench.retrieval.comparison.compare import compare, materials_of
from mrc_workbench.retrieval.comparison.experiment import Experiment, read_experiment, write_experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec, MilvusSpec
from mrc_workbench.retrieval.comparison.store import provenance
from mrc_workbench.retrieval.dense import Dense, IndexKind
from mrc_workbench.retrieval.lexical import counts_by_term
from mrc_workbench.retrieval.lexical.bm25 import BM25, BM25Options
from mrc_workbench.retrieval.milvus import EngineFusion, Milvus, Ranker, Search, TermField, VectorField, term_weights
from mrc_workbench.retrieval.milvus_connection import FILES, Field, MilvusError, Place, place
from mrc_workbench.retrieval.rankings import Rankings
from tests.doubles import PASSAGES, QUESTIONS, KeywordEncoder, small_set, texts_of
from tests.milvus_server import serving
from tests.programs import free_port

ASKED = texts_of(QUESTIONS)
KORQUAD = Path(os.environ.get("MRC_DATA", "")) / "KorQuAD_v1.0_dev.json"
PASSWORD, TOKEN = "pass%20w/rd", "t0ken-nobody-reads"
SPEC = MilvusSpec(name="Milvus", analyzer="bigram")


def milvus(passages: Sequence[Passage], *fields: Field, fusion: EngineFusion | None = None) -> Milvus:
    return Milvus("milvus", len(passages), fields, Place(), fusion=fusion)


def assert_same(found: Rankings, wanted: Rankings) -> None:
    """Scores equal to float32's accuracy, and the same passages but where scores are that close."""
    np.testing.assert_array_equal(np.isfinite(found.scores), np.isfinite(wanted.scores))
    close = {"rtol": 3e-6, "atol": 3e-7}
    np.testing.assert_allclose(found.scores, wanted.scores, **close)
    # where they differ, a neighbour's score is as close as that; past the last place it is not known
    scores = np.where(np.isfinite(wanted.scores), wanted.scores, 0)
    apart = np.abs(np.diff(scores, axis=1, prepend=np.inf, append=scores[:, -1:]))
    near = np.minimum(apart[:, :-1], apart[:, 1:]) <= 3e-6 * scores
    assert near[found.indices != wanted.indices].all()


@pytest.mark.parametrize(("k1", "b"), [(0.9, 0.4), (0, 0), (2.5, 1)])
def test_the_weights_of_a_passage_times_the_counts_of_a_question_are_its_score(k1: float, b: float) -> None:
    passages = [*PASSAGES, Passage("empty", "?!"), Passage("long", "한강은 한강 " * 9)]
    texts, asked = Passages.of(passages).indexed_texts(title=True), [*ASKED, "한강 한강은 한강"]
    tokens, questions = tokens_of(Analyzer.BIGRAM, texts), tokens_of(Analyzer.BIGRAM, asked)
    ids, offsets = questions.flat_ids_in({term: number for number, term in enumerate(tokens.vocabulary)})
    known = counts_by_term(ids, offsets, len(tokens.vocabulary))
    assert offsets[-1] == len(ids)  # what was given is as it was
    scores = (known @ term_weights(tokens, k1, b).T).toarray()
    local = np.vstack(list(BM25("bm25", passages, BM25Options("bigram", k1, b)).score_blocks(asked)))
    np.testing.assert_allclose(scores, np.where(np.isfinite(local), local, 0), rtol=1e-6)
    assert scores[:, 5].tolist() == [0] * len(asked)


@pytest.mark.slow
def test_bm25_in_milvus_is_bm25_also_with_passages_of_no_term() -> None:
    passages = [Passage("empty", "?!"), *PASSAGES]
    options = BM25Options("bigram", k1=1.5, b=0.8, title=False)
    found = milvus(passages, TermField(passages, options)).search(ASKED, 6)
    assert_same(found, BM25("bm25", passages, options).search(ASKED, 6))


@pytest.mark.slow
@pytest.mark.parametrize("index", IndexKind)
def test_vectors_in_milvus_are_found_as_in_a_local_index_of_that_kind(index: IndexKind) -> None:
    found = milvus(PASSAGES, VectorField(PASSAGES, KeywordEncoder(), index=index)).search(ASKED, 5)
    wanted = Dense("dense", PASSAGES, KeywordEncoder(), index=index).search(ASKED, 5)
    np.testing.assert_array_equal(found.indices, wanted.indices)
    np.testing.assert_allclose(found.scores, wanted.scores, rtol=1e-6, atol=1e-7)


@pytest.mark.slow
def test_reciprocal_ranks_fused_by_milvus_are_those_of_the_local_hybrid() -> None:
    options = BM25Options("bigram")
    fields = TermField(PASSAGES, options), VectorField(PASSAGES, KeywordEncoder())
    found = milvus(PASSAGES, *fields, fusion=EngineFusion(depth=4)).search([*ASKED, "zebra"], 5)
    parts = [BM25("bm25", PASSAGES, options), Dense("dense", PASSAGES, KeywordEncoder())]
    assert_same(found, Hybrid("hybrid", parts, n_passages=5, depth=4, fusion=Fusion.RRF).search([*ASKED, "zebra"], 5))


@pytest.mark.slow
def test_a_weighted_fusion_is_the_sum_its_formula_tells() -> None:
    options = BM25Options("bigram")
    fields = TermField(PASSAGES, options), VectorField(PASSAGES, KeywordEncoder())
    fusion = EngineFusion(Ranker.WEIGHTED, depth=5, weights=(0.3, 0.7))
    found = milvus(PASSAGES, *fields, fusion=fusion).search(ASKED, 5)
    wanted = np.zeros((len(ASKED), 5))
    parts = [BM25("bm25", PASSAGES, options), Dense("dense", PASSAGES, KeywordEncoder())]
    for weight, part in zip((0.3, 0.7), parts, strict=True):
        one = part.search(ASKED, 5)
        for row, column in np.argwhere(one.indices >= 0):
            wanted[row, one.indices[row, column]] += weight * (0.5 + np.arctan(one.scores[row, column]) / np.pi)
    for row in range(len(ASKED)):
        assert found.indices[row].tolist() == np.argsort(-wanted[row], kind="stable").tolist()
        np.testing.assert_allclose(found.scores[row], -np.sort(-wanted[row]), rtol=1e-5)


@pytest.mark.slow
def test_passages_whose_beginning_alone_has_a_vector_are_counted() -> None:
    class Short(KeywordEncoder):
        def cut_off(self, texts: Sequence[str]) -> int:
            return sum(len(text) > 18 for text in texts)

    words = TermField(PASSAGES, BM25Options("bigram"))
    fused = EngineFusion(Ranker.RRF, 5)
    assert milvus(PASSAGES, words, VectorField(PASSAGES, Short(), title=False), fusion=fused).cut_off() == 1
    assert milvus(PASSAGES, words).cut_off() == milvus(PASSAGES, VectorField(PASSAGES, KeywordEncoder())).cut_off() == 0


def test_what_decides_a_score_decides_the_collection() -> None:
    def name(passages: Sequence[Passage] = PASSAGES, **options: object) -> str:
        return TermField(passages, BM25Options(**{"analyzer": Analyzer.BIGRAM, **options})).key  # type: ignore[arg-type]

    others = [name(k1=1.0), name(b=0.5), name(title=False), name(analyzer=Analyzer.WORD), name(PASSAGES[::-1])]
    assert len({name(), *others}) == 1 + len(others)
    assert name() == name(engine="rank-bm25")
    encoder = KeywordEncoder()
    exact = VectorField(PASSAGES, encoder).key
    graph, fewer = VectorField(PASSAGES, encoder, index=IndexKind.HNSW).key, VectorField(PASSAGES[1:], encoder).key
    assert len({exact, graph, fewer}) == 3


def test_several_fields_need_a_fusion() -> None:
    with pytest.raises(ValueError, match="fusion"):
        milvus(PASSAGES, TermField(PASSAGES, BM25Options("bigram")), VectorField(PASSAGES, KeywordEncoder()))


@pytest.mark.slow
def test_an_experiment_compares_it_with_what_is_local(tmp_path: Path) -> None:
    specs = (
        BM25Spec(name="BM25", analyzer=Analyzer.BIGRAM),
        MilvusSpec(name="Milvus", analyzer=Analyzer.BIGRAM),
        DenseSpec(name="Dense"),
        MilvusSpec(name="Vectors", search=Search.DENSE, index=IndexKind.HNSW),
        MilvusSpec(name="Both", search=Search.HYBRID, fusion=Ranker.WEIGHTED, weights=(0.5, 0.25), depth=3),
    )
    experiment = Experiment(data="small", ks=(1, 5), retriever=specs)
    path = tmp_path / "experiment.toml"
    path.write_text(write_experiment(experiment), encoding="utf-8")
    assert read_experiment(path) == experiment
    results = compare(experiment, small_set()).results
    assert [result.error for result in results] == [None] * 5
    for local, there in ((0, 1), (2, 3)):
        assert results[there].scores.means() == results[local].scores.means()  # type: ignore[union-attr]
        assert results[there].build_seconds > 0
    assert specs[1].local == specs[0].model_copy(update={"name": "Milvus"})
    assert specs[3].local == DenseSpec(name="Vectors", index=IndexKind.HNSW)
    assert specs[4].local is specs[4]


@pytest.mark.parametrize(
    "wrong",
    [
        {"weights": (0.5, 0.5)},
        {"fusion": "weighted", "weights": (0, 0)},
        {"fusion": "weighted", "weights": (1.5, 1)},
        {"fusion": "weighted", "weights": (1,)},
        {"token": "secret"},
    ],
)
def test_what_makes_no_sense_is_no_specification(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"weights|token"):
        MilvusSpec.model_validate({"name": "Milvus", "search": "hybrid", **wrong})


@pytest.mark.slow
@pytest.mark.skipif(not KORQUAD.is_file(), reason=f"needs {KORQUAD.name} in the folder that MRC_DATA names")
def test_bm25_in_milvus_is_bm25_on_korquad() -> None:
    questions = read_file(KORQUAD).question_set
    asked = [question.text for question in questions.questions[::4]]
    options = BM25Options("bigram")
    found = milvus(questions.passages, TermField(questions.passages, options)).search(asked, 20)
    assert_same(found, BM25("bm25", questions.passages, options).search(asked, 20))


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
        again = Failure.from_dict(scores["retrievers"]["Milvus"])
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
        (kept,) = materials_of(Experiment(data="small", retriever=(spec,)), small_set()).made.values()
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
