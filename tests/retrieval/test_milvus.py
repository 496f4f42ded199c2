"""Milvus returns the results and scores of the local retrievers: directly, in an experiment, on KorQuAD."""

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
from mrc_workbench.retrieval.comparison.compare import build_context, compare
from mrc_workbench.retrieval.comparison.experiment import Experiment, read_experiment, write_experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec, MilvusSpec
from mrc_workbench.retrieval.comparison.store import provenance
from mrc_workbench.retrieval.dense import Dense, IndexKind
from mrc_workbench.retrieval.lexical import counts_by_term
from mrc_workbench.retrieval.lexical.bm25 import BM25, BM25Options
from mrc_workbench.retrieval.milvus import EngineFusion, MilvusRetriever, Ranker, TermField, VectorField, term_weights
from mrc_workbench.retrieval.milvus_connection import FILES, MilvusError, MilvusField, MilvusSettings, milvus_settings
from mrc_workbench.retrieval.rankings import Rankings, Retriever, top_k
from tests.doubles import PASSAGES, QUESTIONS, KeywordEncoder, small_set, texts_of
from tests.milvus_server import serving
from tests.programs import free_port
from tests.retrieval.compared import assert_equal_rankings, hits_of

QUERIES = texts_of(QUESTIONS)
KORQUAD = Path(os.environ.get("MRC_DATA", "")) / "KorQuAD_v1.0_dev.json"
PASSWORD = "pass%20w/rd"  # noqa: S105
TOKEN = "t0ken-nobody-reads"  # noqa: S105
INVALID_ADDRESSES = "./my.db", "secret@host", "http://u:secret@host:port", "tcp://secret", "http://", "http://[secret"
SPEC = MilvusSpec(name="Milvus", analyzer="bigram")


BIGRAMS = BM25Options("bigram")
FIELDS = TermField(PASSAGES, BIGRAMS), VectorField(PASSAGES, KeywordEncoder())


def local_parts() -> list[Retriever]:
    return [BM25("bm25", PASSAGES, BIGRAMS), Dense("dense", PASSAGES, KeywordEncoder())]


def milvus(passages: Sequence[Passage], *fields: MilvusField, fusion: EngineFusion | None = None) -> MilvusRetriever:
    return MilvusRetriever("milvus", len(passages), fields, MilvusSettings(), fusion=fusion)


def assert_same(actual: Rankings, expected: Rankings) -> None:
    """Scores equal to float32's accuracy, and the same passages but where scores are that close."""
    np.testing.assert_array_equal(np.isfinite(actual.scores), np.isfinite(expected.scores))
    close = {"rtol": 3e-6, "atol": 3e-7}
    np.testing.assert_allclose(actual.scores, expected.scores, **close)
    # where they differ, a neighbour's score is as close as that; past the last place it is not known
    scores = np.where(np.isfinite(expected.scores), expected.scores, 0)
    gaps = np.abs(np.diff(scores, axis=1, prepend=np.inf, append=scores[:, -1:]))
    near = np.minimum(gaps[:, :-1], gaps[:, 1:]) <= 3e-6 * scores
    assert near[actual.indices != expected.indices].all()


@pytest.mark.parametrize(("k1", "b"), [(0.9, 0.4), (0, 0), (2.5, 1)])
def test_dot_product_of_weights_and_counts_is_bm25_score(k1: float, b: float) -> None:
    passages = [*PASSAGES, Passage("empty", "?!"), Passage("long", "한강은 한강 " * 9)]
    texts = Passages.from_passages(passages).indexed_texts(title=True)
    queries = [*QUERIES, "한강 한강은 한강"]
    tokens = tokens_of(Analyzer.BIGRAM, texts)
    questions = tokens_of(Analyzer.BIGRAM, queries)
    ids, offsets = questions.flat_ids_in({term: number for number, term in enumerate(tokens.vocabulary)})
    known = counts_by_term(ids, offsets, len(tokens.vocabulary))
    assert offsets[-1] == len(ids)  # unchanged
    scores = (known @ term_weights(tokens, k1, b).T).toarray()
    local = np.vstack(list(BM25("bm25", passages, BM25Options("bigram", k1, b)).score_blocks(queries)))
    np.testing.assert_allclose(scores, np.where(np.isfinite(local), local, 0), rtol=1e-6)
    assert scores[:, 5].tolist() == [0] * len(queries)


@pytest.mark.slow
def test_milvus_bm25_equals_bm25_with_empty_passages() -> None:
    passages = [Passage("empty", "?!"), *PASSAGES]
    options = BM25Options("bigram", k1=1.5, b=0.8, title=False)
    rankings = milvus(passages, TermField(passages, options)).search(QUERIES, 6)
    assert_same(rankings, BM25("bm25", passages, options).search(QUERIES, 6))


@pytest.mark.slow
@pytest.mark.parametrize("index", IndexKind)
def test_milvus_vectors_match_local_index(index: IndexKind) -> None:
    rankings = milvus(PASSAGES, VectorField(PASSAGES, KeywordEncoder(), index=index)).search(QUERIES, 5)
    expected = Dense("dense", PASSAGES, KeywordEncoder(), index=index).search(QUERIES, 5)
    assert_equal_rankings(rankings, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.slow
def test_milvus_rrf_matches_local_hybrid() -> None:
    rankings = milvus(PASSAGES, *FIELDS, fusion=EngineFusion(depth=4)).search([*QUERIES, "zebra"], 5)
    hybrid = Hybrid("hybrid", local_parts(), n_passages=5, depth=4, fusion=Fusion.RRF)
    assert_same(rankings, hybrid.search([*QUERIES, "zebra"], 5))


@pytest.mark.slow
def test_weighted_fusion_matches_formula() -> None:
    fusion = EngineFusion(Ranker.WEIGHTED, depth=5, weights=(0.3, 0.7))
    rankings = milvus(PASSAGES, *FIELDS, fusion=fusion).search(QUERIES, 5)
    expected = np.zeros((len(QUERIES), 5))
    for weight, part in zip((0.3, 0.7), local_parts(), strict=True):
        for row, hits in enumerate(hits_of(part.search(QUERIES, 5))):
            for passage, score in hits.items():
                expected[row, passage] += weight * (0.5 + np.arctan(score) / np.pi)
    assert_equal_rankings(rankings, top_k(expected, 5), rtol=1e-5)


@pytest.mark.slow
def test_counts_truncated_passages() -> None:
    class Short(KeywordEncoder):
        def count_truncated(self, texts: Sequence[str]) -> int:
            return sum(len(text) > 18 for text in texts)

    terms, vectors = FIELDS
    short = VectorField(PASSAGES, Short(), title=False)
    assert milvus(PASSAGES, terms, short, fusion=EngineFusion(Ranker.RRF, 5)).count_truncated() == 1
    assert [milvus(PASSAGES, field).count_truncated() for field in (terms, vectors)] == [0, 0]


def test_collection_name_depends_on_score_inputs() -> None:
    def name(passages: Sequence[Passage] = PASSAGES, **options: object) -> str:
        return TermField(passages, BM25Options(**{"analyzer": Analyzer.BIGRAM, **options})).key  # type: ignore[arg-type]

    others = [name(k1=1.0), name(b=0.5), name(title=False), name(analyzer=Analyzer.WORD), name(PASSAGES[::-1])]
    assert len({name(), *others}) == 1 + len(others)
    assert name() == name(engine="rank-bm25")
    encoder = KeywordEncoder()
    graph = VectorField(PASSAGES, encoder, index=IndexKind.HNSW).key
    assert len({VectorField(PASSAGES, encoder).key, graph, VectorField(PASSAGES[1:], encoder).key}) == 3


def test_rejects_several_fields_without_fusion() -> None:
    with pytest.raises(ValueError, match="fusion"):
        milvus(PASSAGES, *FIELDS)


@pytest.mark.slow
def test_experiment_compares_milvus_with_local_retriever(tmp_path: Path) -> None:
    specs = (
        BM25Spec(name="BM25", analyzer=Analyzer.BIGRAM),
        MilvusSpec(name="Milvus", analyzer=Analyzer.BIGRAM),
        DenseSpec(name="Dense"),
        MilvusSpec(name="Vectors", search="dense", index=IndexKind.HNSW),
        MilvusSpec(name="Both", search="hybrid", fusion=Ranker.WEIGHTED, weights=(0.5, 0.25), top_k=3),
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
    assert specs[1].local_spec == specs[0].model_copy(update={"name": "Milvus"})
    assert specs[3].local_spec == DenseSpec(name="Vectors", index=IndexKind.HNSW)
    assert specs[4].local_spec is specs[4]


@pytest.mark.parametrize(
    "wrong",
    [
        *({"weights": (0.5, 0.5)}, {"token": "secret"}),
        *({"fusion": "weighted", "weights": weights} for weights in ((0, 0), (1.5, 1), (1,))),
    ],
)
def test_rejects_inconsistent_spec(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"weights|token"):
        MilvusSpec.model_validate({"name": "Milvus", "search": "hybrid", **wrong})


@pytest.mark.slow
@pytest.mark.skipif(not KORQUAD.is_file(), reason=f"needs {KORQUAD.name} in the folder that MRC_DATA names")
def test_milvus_bm25_equals_bm25_on_korquad() -> None:
    questions = read_file(KORQUAD).question_set
    queries = [question.text for question in questions.questions[::4]]
    rankings = milvus(questions.passages, TermField(questions.passages, BIGRAMS)).search(queries, 20)
    assert_same(rankings, BM25("bm25", questions.passages, BIGRAMS).search(queries, 20))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_SECONDS_TO_CONNECT", 0.5)
    monkeypatch.setattr(connection, "_RETRY_DELAYS", (0.1,))
    monkeypatch.setattr(connection, "_LOCK_TIMEOUT_SECONDS", 0.1)
    monkeypatch.setitem(connection.RETRY_OPTIONS, "retry_times", 2)


def loaded(at: MilvusSettings) -> MilvusRetriever:
    return MilvusRetriever("milvus", len(PASSAGES), FIELDS[:1], at)


@pytest.mark.parametrize(
    ("uri", "token", "expected"),
    [
        ("", "", MilvusSettings()),
        ("http://localhost", "", MilvusSettings("http://localhost:19530")),
        ("https://milvus.example/", "t", MilvusSettings("https://milvus.example:443", "", "t")),
        ("http://u:p%40@[::1]:7000/mine?x=secret#y", "", MilvusSettings("http://[::1]:7000", "mine", "u:p@")),
        ("http://u:p@host:1/mine", "t", MilvusSettings("http://host:1", "mine", "t")),
    ],
)
def test_reads_settings(uri: str, token: str, expected: MilvusSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILVUS_URI", uri)
    monkeypatch.setenv("MILVUS_TOKEN", token)
    assert milvus_settings() == (expected if uri else MilvusSettings())


@pytest.mark.parametrize("uri", INVALID_ADDRESSES)
def test_invalid_address_is_reported_without_its_value(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MILVUS_URI", uri)
    with pytest.raises(MilvusError, match="MILVUS_URI") as caught:
        milvus_settings()
    assert caught.value.code == "milvus_address"
    assert "secret" not in "".join(traceback.format_exception(caught.value))


def test_credentials_do_not_appear_in_outputs(
    impatient: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("MILVUS_URI", f"http://root:{PASSWORD.replace('/', '%2F')}@127.0.0.1:{free_port()}/mine")
    experiment = Experiment(data="small", ks=(1,), retriever=(SPEC,))
    outputs = []
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
        settings = milvus_settings()
        outputs += [scores, traceback.format_exception(error), provenance(comparison)]
        outputs += [repr(settings), settings.display_name]
    outputs += [write_experiment(experiment), caplog.text, [path.read_text() for path in tmp_path.rglob("*.json")]]
    words = json.dumps(outputs)
    assert "127.0.0.1" in words
    for secret in (TOKEN, PASSWORD, "pass w/rd", PASSWORD.replace("/", "%2F"), "w/rd", "w%2Frd"):
        assert secret not in words


def test_removes_secrets_from_milvus_messages() -> None:
    at = MilvusSettings("http://host:1", token="root:p w/d")  # noqa: S106
    assert at.without_secrets("root:p w/d, p w/d and p%20w%2Fd, p%20w/d of root") == "***, *** and ***, *** of root"
    assert MilvusSettings().without_secrets("as it is") == "as it is"


def test_cache_key_ignores_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    def key(uri: str, spec: MilvusSpec = SPEC) -> str:
        monkeypatch.setenv("MILVUS_URI", uri)
        (cached,) = build_context(Experiment(data="small", retriever=(spec,)), small_set()).retrievers.values()
        assert not isinstance(cached, Exception)
        return cached.key

    assert key("http://a:b@host:1") == key("http://c:d@host:1")
    changed = SPEC.model_copy(update={"k1": 2.0})
    assert len({key(""), key("http://host:1"), key("http://host:1", changed), key("http://host:2")}) == 4


@pytest.mark.slow
def test_retries_lost_connection(tmp_path: Path) -> None:
    port = free_port()
    with serving(tmp_path / "lite", port) as address:
        milvus = loaded(MilvusSettings(address))
        before = milvus.search(texts_of(QUESTIONS), 3)
    again = threading.Event()
    done = threading.Event()

    def come_back() -> None:
        time.sleep(1)
        with serving(tmp_path / "lite", port):
            again.set()
            done.wait(60)

    thread = threading.Thread(target=come_back)
    thread.start()
    try:
        assert not again.is_set()
        rankings = milvus.search(texts_of(QUESTIONS), 3)
        assert again.is_set()
    finally:
        done.set()
        thread.join()
    assert (rankings.indices == before.indices).all()


@pytest.mark.slow
def test_reports_server_lost_during_search(impatient: None, tmp_path: Path) -> None:
    with serving(tmp_path / "lite") as address:
        at = MilvusSettings(address)
        milvus = loaded(at)
    with pytest.raises(MilvusError, match="does not answer") as caught:
        milvus.search(texts_of(QUESTIONS), 3)
    assert (caught.value.code, caught.value.details) == ("milvus_unreachable", {"milvus": address})

    with ExitStack() as server:
        address = server.enter_context(serving(tmp_path / "lite"))

        def use_it_past_its_end() -> None:
            with connection.open_client(MilvusSettings(address), "") as client:
                server.close()
                client.has_collection("any", **connection.RETRY_OPTIONS)

        with pytest.raises(MilvusError, match="does not answer"):
            use_it_past_its_end()

    with serving(tmp_path / "other") as address, pytest.raises(MilvusError, match="failed") as caught:
        MilvusRetriever("milvus", 1, [], MilvusSettings(address))  # a collection without a vector is none
    assert caught.value.code == "milvus_failed"


class Refusing(grpc.GenericRpcHandler):
    """A server that refuses all clients, and repeats their credentials."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        given = dict(handler_call_details.invocation_metadata).get("authorization", "")

        def refuse(request: bytes, context: grpc.ServicerContext) -> bytes:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, f"not {b64decode(given).decode()}, really")
            return b""

        return grpc.unary_unary_rpc_method_handler(refuse)


def test_reports_rejected_token_without_retry(caplog: pytest.LogCaptureFixture) -> None:
    server = grpc.server(ThreadPoolExecutor(2), handlers=(Refusing(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with pytest.raises(MilvusError, match="MILVUS_TOKEN") as caught:
            loaded(MilvusSettings(f"http://127.0.0.1:{port}", token=f"root:{TOKEN}"))
    finally:
        server.stop(None)
    assert caught.value.code == "milvus_refused"
    assert str(caught.value).endswith(": not ***, really")
    assert TOKEN not in "".join(traceback.format_exception(caught.value)) + caplog.text


@pytest.mark.slow
def test_file_is_locked_by_single_process(impatient: None) -> None:
    milvus = loaded(MilvusSettings())
    file = workspace() / "milvus" / f"{milvus.collection}.db"
    with FileLock(file.with_suffix(".lock")):
        with pytest.raises(MilvusError, match="another process") as caught:
            milvus.search(texts_of(QUESTIONS), 3)
        assert (caught.value.code, caught.value.details) == ("milvus_locked", {"milvus": FILES})
    with serving(file), pytest.raises(MilvusError, match="another process") as caught:
        milvus.search(texts_of(QUESTIONS), 3)
    assert caught.value.code == "milvus_locked"
    assert milvus.search(texts_of(QUESTIONS), 3).indices[0, 0] == 0
