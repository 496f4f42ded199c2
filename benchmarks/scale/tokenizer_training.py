"""Tokenizers trained on a gigabyte of text: seconds, and the most memory each training held.

The words are KorQuAD's, drawn as often as they occur there, and new ones that grow by Heaps' law as its own do: the
first half of one and the second of another. MRC_TEXT_BYTES is how much text (1,000,000,000), MRC_VOCABULARY the pieces
(32,000).
"""

import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter

import numpy as np

from benchmarks.material import korquad
from data.read import read_file
from data.workspace import PROJECT
from language.tokenizers.kinds import Split, TokenizerKind
from language.tokenizers.material import MOST_CHARACTERS

_GIB = 2**30
_AT_A_TIME = 200_000  # words
_IN_A_DOCUMENT = 100


def measure() -> list[str]:
    """Return a table of the kinds, their seconds with reading and measuring, and their most memory."""
    size, vocabulary = int(os.environ.get("MRC_TEXT_BYTES", "1000000000")), os.environ.get("MRC_VOCABULARY", "32000")
    lines = [f"| {vocabulary} pieces, {size / 1e6:,.0f} MB of text | seconds | most memory |", "|---|---:|---:|"]
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "generated.txt")
        with text.open("w", encoding="utf-8") as file:
            for document in documents(_korquad_words(), size):
                file.write(document + "\n")
        for kind, split in [*((kind, Split.WORDS) for kind in TokenizerKind), (TokenizerKind.BPE, Split.MORPHEMES)]:
            asked = ["--data", str(text), "--kind", kind, "--split", split, "--vocabulary", vocabulary]
            seconds, memory = _carried_out([sys.executable, "-m", "language", "tokenizers", "--json", *asked])
            lines.append(f"| {kind}, {split} | {seconds:,.0f} | {memory / _GIB:.2f} GiB |")
    return [*lines, "", f"Of a larger text, about {MOST_CHARACTERS:,} characters are learned from."]


def _carried_out(words: list[str]) -> tuple[float, int]:
    """Run a command; returns its seconds, and the most bytes it held. Raises `RuntimeError` where it fails."""
    began = perf_counter()
    process = subprocess.Popen(words, cwd=PROJECT, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with {process.returncode}")
    return perf_counter() - began, used.ru_maxrss * 1024


def documents(real: Sequence[str], size: int, seed: int = 0) -> Iterator[str]:
    """Yield documents of 100 words, made of real ones, until they hold so many bytes."""
    words_of, (beta, scale) = np.array(real, dtype=object), heaps(real)
    rng, written, words = np.random.default_rng(seed), 0, len(real)
    while written < size:
        drawn = words_of[rng.integers(len(real), size=_AT_A_TIME)]
        new = int(scale * ((words + _AT_A_TIME) ** beta - words**beta))
        for place in rng.choice(_AT_A_TIME, new, replace=False).tolist():
            first, second = words_of[rng.integers(len(real), size=2)]
            drawn[place] = first[: (len(first) + 1) // 2] + second[len(second) // 2 :]
        words += _AT_A_TIME
        for start in range(0, _AT_A_TIME, _IN_A_DOCUMENT):
            document = " ".join(drawn[start : start + _IN_A_DOCUMENT])
            yield document
            written += len(document.encode()) + 1
            if written >= size:
                return


def heaps(words: Sequence[str]) -> tuple[float, float]:
    """Exponent and scale of `distinct = scale * words^exponent`, of the first half of the words and all of them."""
    half, distinct = len(words) // 2, len({*words})
    exponent = math.log(distinct / len({*words[:half]})) / math.log(len(words) / half)
    return exponent, distinct / len(words) ** exponent


def _korquad_words() -> list[str]:
    return [word for text in read_file(korquad()).question_set.passages.texts for word in text.split()]
