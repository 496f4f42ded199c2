"""Compare encoding, reranking and analysis with the libraries' defaults.

`python -m benchmarks encoding reranking analyzers` runs all. `encoding` encodes `ENCODING_TEXTS` (64) passages of
KorQuAD with a BERT of base size. `reranking` reranks BM25's top 50; larger models get fewer questions, since the
library would take hours. `analyzers` compares Korean morphological analysis with a loop over Kiwi, and measures how
fast stored tokens are read, of KorQuAD and of `ANALYZED_PASSAGES` (50000) synthetic passages.
"""

import os
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import version
from itertools import count, islice
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
from scipy.stats import spearmanr

from benchmarks import peers, synthetic_data
from benchmarks.synthetic_data import BASE, SMALL, TINY, bi_encoder, cross_encoder, korquad
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.text.analysis import Tokens, analyze, tokens_of
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.data.texts import fingerprint_of
from mrc_workbench.models.encoders import BiEncoder, CrossEncoderScorer
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.sources import find_model
from mrc_workbench.retrieval.lexical.bm25 import BM25

_ENCODING_TARGET = 2.5
_ENCODER_PEER = f"sentence-transformers {version('sentence-transformers')} encode, float32"


def encoding() -> list[str]:
    """Return a Markdown table: rates of both at two lengths, and the lowest cosine of float32 and our vectors."""
    texts = [passage.text for passage in read_file(korquad()).question_set.passages]
    sampled_rows = np.random.default_rng(0).permutation(len(texts))[: int(os.environ.get("ENCODING_TEXTS", "64"))]
    sample = [texts[row] for row in sampled_rows]
    columns = ("maximum length, tokens", "passages per second, library", "ours", "times faster", "lowest cosine")
    lines = [f"| {' | '.join(columns)} |", "|---|---:|---:|---:|---:|"]
    measured = []
    for max_length, batch in ((128, sample), (512, sample[: max(8, len(sample) // 4)])):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["MRC_WORKSPACE"] = folder
            model = bi_encoder(Path(folder, "base"), texts, max_length)
            measured.append(_compare_encoding(model, batch, max_length))
            cosine = _lowest_cosine(model, batch)
        lines.append(f"| {max_length} | {rate_cells(measured[-1], len(batch))} | {cosine:.6f} |")
    peers.save_results(measured)
    return lines


def rate_cells(result: peers.PeerResult, count: int) -> str:
    """Return table cells: the items per second of the library and of ours, and the ratio with its range."""
    low, high = result.spread or (0.0, 0.0)
    library = count / (result.theirs or 1.0)
    ours = count / result.ours
    return f"{library:.2f} | {ours:.2f} | {result.ratio or 0.0:.2f} ({low:.2f} to {high:.2f})"


def _compare_encoding(model: Path, texts: list[str], max_length: int) -> peers.PeerResult:
    from sentence_transformers import SentenceTransformer

    library = SentenceTransformer(str(model), device="cpu", model_kwargs={"dtype": "float32"})
    ours = BiEncoder(find_model(str(model)), [], precision=Precision.AUTO)
    return peers.compare_alternately(
        "Encoding, base size",
        _ENCODER_PEER,
        f"{len(texts)} passages, {max_length} tokens",
        lambda: ours.encode("passage", texts),
        lambda: library.encode(texts, normalize_embeddings=True),
        target=_ENCODING_TARGET,
    )


def _lowest_cosine(model: Path, texts: list[str]) -> float:
    source = find_model(str(model))
    exact, ours = (
        BiEncoder(source, [], precision=precision).encode("passage", texts)
        for precision in (Precision.FLOAT32, Precision.AUTO)
    )
    return float((exact * ours).sum(axis=1).min())


_DEPTH = 50
_MAX_LENGTH = 512
_RERANKING_ROUNDS = 2
_RERANKING_TARGET = 2.5
_RERANKER_PEER = f"sentence-transformers {version('sentence-transformers')} predict, float32"
_MODELS = {
    "2 layers of width 128": (TINY, 1000),
    "6 layers of width 384": (SMALL, 40),
    "base size": (BASE, 8),
}  # number of questions
Pairs = list[tuple[str, str]]


def reranking() -> list[str]:
    """Return a Markdown table: pairs per second of both by model, and the rank correlation of their scores."""
    question_set = read_file(korquad()).question_set
    texts = question_set.passages.indexed_texts(title=True)
    max_questions = max(questions for _, questions in _MODELS.values())
    sampled_rows = np.random.default_rng(0).permutation(len(question_set.questions))[:max_questions]
    lines = [
        "| model | pairs per second, library | ours | times faster | Spearman's rho |",
        "|---|---:|---:|---:|---:|",
    ]
    measured = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        queries = [question_set.questions[row].text for row in sampled_rows]
        candidates = BM25("BM25", question_set.passages).search(queries, _DEPTH).indices
        for name, (size, questions) in _MODELS.items():
            pairs = [(queries[row], texts[passage]) for row in range(questions) for passage in candidates[row].tolist()]
            model = cross_encoder(Path(folder, name.replace(" ", "-")), texts, _MAX_LENGTH, size)
            result, rho = _compare_reranking(name, model, pairs)
            measured.append(result)
            lines.append(f"| {name} | {rate_cells(result, len(pairs))} | {rho:.4f} |")
    peers.save_results(measured)
    return lines


def _compare_reranking(name: str, model: Path, pairs: Pairs) -> tuple[peers.PeerResult, float]:
    import torch
    from sentence_transformers import CrossEncoder

    identity = torch.nn.Identity()
    library = CrossEncoder(str(model), device="cpu", model_kwargs={"dtype": "float32"})
    library.predict(pairs[:1], activation_fn=identity)  # the first call loads modules
    rounds = []
    for _ in range(_RERANKING_ROUNDS):
        ours = CrossEncoderScorer(find_model(str(model)), [], precision=Precision.AUTO, new_head=True)
        ours.score(pairs[:1])
        our_seconds, reduced = _timed(partial(ours.score, pairs))
        their_seconds, exact = _timed(partial(library.predict, pairs, activation_fn=identity))
        rounds.append((our_seconds, their_seconds))
    by_question = zip(exact.reshape(-1, _DEPTH), reduced.reshape(-1, _DEPTH), strict=True)
    rho = float(
        np.mean([spearmanr(exact_scores, reduced_scores).statistic for exact_scores, reduced_scores in by_question])
    )
    size = f"{len(pairs) // _DEPTH:,} questions, {_DEPTH} passages each"
    return peers.summarize_rounds(f"Reranking, {name}", _RERANKER_PEER, size, rounds, target=_RERANKING_TARGET), rho


def _timed(work: Callable[[], np.ndarray]) -> tuple[float, np.ndarray]:
    start = perf_counter()
    scores = work()
    return perf_counter() - start, scores


_READING_ROUNDS = 5
_TARGET_RATE = 100  # MB per second
_TAGS = ("N", "V", "M", "XR", "SL", "SH", "SN")


def analyzers() -> list[str]:
    """Return a list: analysis compared with Kiwi, and the rates of reading stored tokens."""
    texts = list(read_file(korquad()).question_set.passages.indexed_texts(title=True))
    many = list(islice(synthetic_data.generate_texts(_size()), _size()))
    kiwi = _compare_with_loop(texts)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        read = [_measure_rereading(Analyzer.KIWI_BIGRAM, texts), _measure_rereading(Analyzer.BIGRAM, many)]
    rates = [rate for rates in read for rate in rates]
    peers.save_results([kiwi, *rates])
    low, high = kiwi.spread or (0.0, 0.0)
    speed = f"{kiwi.ratio:.2f} times faster ({low:.2f} to {high:.2f})"
    return [
        f"- {kiwi.name}, {kiwi.size}: {kiwi.ours:.2f} s, {kiwi.peer} {kiwi.theirs:.2f} s, {speed}",
        *(f"- {result.name}, {result.size}: {result.ours:,.0f} {result.unit}; {result.note}" for result in rates),
    ]


def _size() -> int:
    return int(os.environ.get("ANALYZED_PASSAGES", "50000"))


def _compare_with_loop(texts: Sequence[str]) -> peers.PeerResult:
    from kiwipiepy import Kiwi

    kiwi = Kiwi(num_workers=1)
    rounds = {"ours": count(), "theirs": count()}

    def numbered_texts(side: str) -> list[str]:
        number = next(rounds[side])  # new texts each round, since ours caches tokens
        return [f"{text}\n{number}" for text in texts]

    def loop() -> list[list[str]]:
        analyzed = [kiwi.tokenize(text) for text in numbered_texts("theirs")]
        return [[token.form.lower() for token in tokens if token.tag.startswith(_TAGS)] for tokens in analyzed]

    return peers.compare_alternately(
        "Morphological analysis (Kiwi)",
        f"kiwipiepy {version('kiwipiepy')}, one text at a time, 1 worker",
        f"{len(texts):,} passages",
        lambda: analyze(Analyzer.KIWI, numbered_texts("ours")),
        loop,
        rounds=2,
    )


def _measure_rereading(analyzer: Analyzer, texts: Sequence[str]) -> list[peers.PeerResult]:
    """Return the rates of reading stored tokens; the note has the time of hashing the texts, which is their key."""
    tokens = tokens_of(analyzer, texts)
    seconds = _seconds(lambda: tokens_of(analyzer, texts))
    hashing = _seconds(lambda: fingerprint_of(texts))
    size_label = f"{analyzer.value}, {len(texts):,} passages"
    note = (
        f"target {_TARGET_RATE} or more; {hashing * 1000:.1f} of {seconds * 1000:.1f} ms are spent on hashing the texts"
    )
    sizes = {"of tokens": token_bytes(tokens), "of text": sum(len(text.encode()) for text in texts)}
    return [
        peers.PeerResult(
            f"Reading stored tokens, MB {unit}", "", size_label, size / 10**6 / seconds, unit="MB/s", note=note
        )
        for unit, size in sizes.items()
    ]


def token_bytes(tokens: Tokens) -> int:
    """Return the size of the token arrays, plus the vocabulary in UTF-8 with a separator byte per word."""
    return int(tokens.ids.nbytes + tokens.offsets.nbytes + sum(len(token.encode()) + 1 for token in tokens.vocabulary))


def _seconds(work: Callable[[], object]) -> float:
    return median(peers.measure_seconds(work) for _ in range(_READING_ROUNDS))
