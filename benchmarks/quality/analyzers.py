"""Korean morphemes of KorQuAD's passages against a plain loop over Kiwi, and how fast kept tokens are read again.

`ANALYZED_PASSAGES` is how many synthetic passages are read again beside KorQuAD's (50000); they are cut into bigrams,
which takes no time worth waiting for.
"""

import os
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import version
from itertools import count, islice
from statistics import median
from time import perf_counter

from benchmarks import material, peers
from benchmarks.material import korquad
from data.read import read_file
from data.texts import fingerprint_of
from text.analysis import analyze
from text.analyzers import Analyzer
from text.tokens import Tokens, tokens_of

_ROUNDS = 5  # of reading; Kiwi is slow, and two will do
_WANTED = 100  # MB a second
_TAGS = ("N", "V", "M", "XR", "SL", "SH", "SN")


def measure() -> list[str]:
    """Return both comparisons as lines of a report."""
    texts = list(read_file(korquad()).question_set.passages.indexed_texts(title=True))
    many = list(islice(material.texts(_size()), _size()))
    kiwi = _against_a_loop(texts)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MRC_WORKSPACE"] = folder
        read = [_read_again(Analyzer.KIWI_BIGRAM, texts), _read_again(Analyzer.BIGRAM, many)]
    rates = [rate for rates in read for rate in rates]
    peers.keep([kiwi, *rates])
    low, high = kiwi.spread or (0.0, 0.0)
    speed = f"{kiwi.ratio:.2f} times faster ({low:.2f} to {high:.2f})"
    return [
        f"{kiwi.name}, {kiwi.size}: {kiwi.ours:.2f} s, {kiwi.peer} {kiwi.theirs:.2f} s, {speed}",
        *(f"{one.name}, {one.size}: {one.ours:,.0f} {one.unit}; {one.note}" for one in rates),
    ]


def _size() -> int:
    return int(os.environ.get("ANALYZED_PASSAGES", "50000"))


def _against_a_loop(texts: Sequence[str]) -> peers.Measured:
    from kiwipiepy import Kiwi

    kiwi, rounds = Kiwi(num_workers=1), {"ours": count(), "theirs": count()}

    def asked(who: str) -> list[str]:
        number = next(rounds[who])  # ours remembers the texts that it has seen
        return [f"{text}\n{number}" for text in texts]

    def loop() -> list[list[str]]:
        found = [kiwi.tokenize(text) for text in asked("theirs")]
        return [[token.form.lower() for token in tokens if token.tag.startswith(_TAGS)] for tokens in found]

    return peers.in_turns(
        "Kiwi's morphemes",
        f"kiwipiepy {version('kiwipiepy')}, a text at a time, 1 worker",
        f"{len(texts):,} passages",
        lambda: analyze(Analyzer.KIWI, asked("ours")),
        loop,
        rounds=2,
    )


def _read_again(analyzer: Analyzer, texts: Sequence[str]) -> list[peers.Measured]:
    """How fast tokens come that were kept: of all that this takes, the texts' digest, which is their key, is told."""
    tokens = tokens_of(analyzer, texts)
    seconds, digest = _seconds(lambda: tokens_of(analyzer, texts)), _seconds(lambda: fingerprint_of(texts))
    of = f"{analyzer.value}, {len(texts):,} passages"
    note = f"wanted {_WANTED} or more; of {seconds * 1000:.1f} ms the digest of the texts takes {digest * 1000:.1f}"
    sizes = {"of tokens": bytes_of(tokens), "of text": sum(len(text.encode()) for text in texts)}
    return [
        peers.Measured(f"Kept tokens read, MB {what}", "", of, size / 10**6 / seconds, unit="MB/s", note=note)
        for what, size in sizes.items()
    ]


def bytes_of(tokens: Tokens) -> int:
    """Size of a text's tokens as arrays, and of their vocabulary in UTF-8, a byte between two of them."""
    return int(tokens.ids.nbytes + tokens.offsets.nbytes + sum(len(token.encode()) + 1 for token in tokens.vocabulary))


def _seconds(work: Callable[[], object]) -> float:
    took = []
    for _ in range(_ROUNDS):
        start = perf_counter()
        work()
        took.append(perf_counter() - start)
    return median(took)
