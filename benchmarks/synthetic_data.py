"""Data and models of the benchmarks: KorQuAD 1.0 dev, synthetic question sets, and random models of real sizes.

`python -m benchmarks.synthetic_data COUNT FILE` writes a question set with KorQuAD's word distribution. The cost of a
model does not depend on its weights, so random weights suffice.
"""

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.workspace import replacing

NAME = "KorQuAD_v1.0_dev.json"


def korquad() -> Path:
    """Return the path of the file; exits with a hint if it is missing."""
    path = Path(os.environ.get("MRC_DATA", "")) / NAME
    if not path.is_file():
        sys.exit(f"set MRC_DATA to the folder that contains {NAME}")
    return path


_DEVELOPMENT_SETS = {
    "NPL (vaswani), English": "vaswani.beir.zip",
    "Cranfield, English": "cranfield.beir.zip",
    "XQuAD, Russian": "xquad.ru.json",
    "JaQuAD, Japanese": "jaquad_dev.json",
    "KorQuAD, Korean": NAME,
}


def development_sets() -> dict[str, Path]:
    """Return the files of the datasets on which methods are selected, by name; exits if a file is missing."""
    folder = korquad().parent
    paths = {name: folder / file for name, file in _DEVELOPMENT_SETS.items()}
    if missing := [path.name for path in paths.values() if not path.is_file()]:
        sys.exit(f"the folder of MRC_DATA lacks {', '.join(missing)}")
    return paths


def peak_memory(pid: int | str = "self") -> int:
    """Return the peak memory of a process in bytes, including mapped files; 0 if the process has ended.

    Unlike `os.wait4`, this does not include the memory of the parent process at the start.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:")), 0)


_VOCABULARY = 32_000
_NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}  # so that losses can be compared
BASE: dict[str, int] = {}  # BERT's own size: 12 layers of 768
TINY = {"num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 2, "intermediate_size": 512}
SMALL = {"num_hidden_layers": 6, "hidden_size": 384, "num_attention_heads": 12, "intermediate_size": 1536}


def bi_encoder(
    folder: Path, texts: Sequence[str], max_length: int, size: dict[str, int] = BASE, *, has_dropout: bool = False
) -> Path:
    """Write a random BERT with mean pooling and a vocabulary from the texts; returns the model's folder."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel

    settings = size if has_dropout else {**_NO_DROPOUT, **size}
    _write_model(folder, texts, max_length, BertModel, BertConfig(vocab_size=_VOCABULARY, **settings))
    transformer = Transformer(str(folder / "bert"), max_seq_length=max_length)
    pooling = Pooling(transformer.get_embedding_dimension())
    SentenceTransformer(modules=[transformer, pooling]).save_pretrained(str(folder / "model"))
    return folder / "model"


def cross_encoder(folder: Path, texts: Sequence[str], max_length: int, size: dict[str, int] = BASE) -> Path:
    """Write a random BERT with one score; its weights have a larger variance than by default, so that scores differ."""
    from transformers import BertConfig, BertForSequenceClassification

    settings = {"initializer_range": 0.06, "num_labels": 1, **_NO_DROPOUT, **size}
    _write_model(
        folder, texts, max_length, BertForSequenceClassification, BertConfig(vocab_size=_VOCABULARY, **settings)
    )
    return folder / "bert"


def _write_model(folder: Path, texts: Sequence[str], max_length: int, kind: type, config: object) -> None:
    import torch
    from tokenizers import BertWordPieceTokenizer
    from transformers import BertTokenizerFast

    pieces = BertWordPieceTokenizer(strip_accents=False, lowercase=False)
    pieces.train_from_iterator(texts, vocab_size=_VOCABULARY, show_progress=False)
    tokenizer = BertTokenizerFast(tokenizer_object=pieces._tokenizer, model_max_length=max_length)
    torch.manual_seed(0)
    kind(config).save_pretrained(folder / "bert")
    tokenizer.save_pretrained(folder / "bert")


QUESTIONS = 2_000
_PASSAGES_PER_ARTICLE = 7  # as in KorQuAD
_BLOCK_SIZE = 5_000  # passages generated at a time
_HASH_MULTIPLIER = 1_000_000_007  # a prime: consecutive numbers get dissimilar words
_PARTICLES = ("", "은", "이", "을", "의", "에")


class WordModel(NamedTuple):
    """The word distribution of a corpus, and the number of words per passage."""

    words: np.ndarray  # (n_words,) of objects
    cumulative: np.ndarray  # (n_words,) float64, cumulative frequencies
    rare: np.ndarray  # (n_words,) bool: words that occur once
    lengths: np.ndarray  # (n_passages,) int64
    growth: tuple[float, float]  # K and beta of Heaps' law: n tokens have K * n ** beta words
    syllables: list[str]


def word_model() -> WordModel:
    """Count the words of KorQuAD dev; beta is measured between half of its tokens and all."""
    passages = [text.split() for text in read_file(korquad()).question_set.passages.texts]
    tokens = [word for words in passages for word in words]
    counts = Counter(tokens)
    beta = np.log2(len(counts) / len(set(tokens[: len(tokens) // 2])))
    times = np.array(list(counts.values()))
    return WordModel(
        np.array(list(counts), dtype=object),
        np.cumsum(times / len(tokens)),
        times == 1,
        np.array([len(words) for words in passages]),
        (len(counts) / len(tokens) ** beta, float(beta)),
        sorted({character for word in counts for character in word if "가" <= character <= "힣"}),
    )


def generate_texts(count: int, seed: int = 0) -> Iterator[str]:
    """Yield `count` passages, determined by the seed, with words sampled by their frequency in KorQuAD.

    A word that occurs once represents all rare words: it is replaced by a new word at the rate of Heaps' law, else by
    an earlier replacement.
    """
    source = word_model()
    random = np.random.default_rng(seed)
    k, beta = source.growth
    tokens = int(source.lengths.sum())
    rare_words = 0
    for start in range(0, count, _BLOCK_SIZE):
        lengths = random.choice(source.lengths, min(_BLOCK_SIZE, count - start))
        size = int(lengths.sum())
        word_rows = np.minimum(np.searchsorted(source.cumulative, random.random(size)), len(source.words) - 1)
        words = source.words[word_rows]
        rare = np.flatnonzero(source.rare[word_rows])
        growth = k * beta * float(tokens) ** (beta - 1)  # new words per token
        new = random.random(len(rare)) < growth * size / max(1, len(rare))
        numbers = np.where(
            new, rare_words + np.cumsum(new) - 1, (rare_words * random.random(len(rare)) ** 2).astype(int)
        )
        words[rare] = [_spell_number(number, source.syllables) for number in numbers.tolist()]
        tokens = tokens + size
        rare_words = rare_words + int(new.sum())
        yield from (" ".join(words[a:b]) for a, b in pairwise(accumulate(lengths.tolist(), initial=0)))


def write_set(path: Path, count: int, *, questions: int = QUESTIONS, seed: int = 0) -> None:
    """Write a question set in SQuAD's layout, one article per line.

    A question consists of words of its passage, and another word is the answer. The relevant passages are evenly spread
    over the corpus.
    """
    random = np.random.default_rng((seed, 1))
    every = max(1, count // questions)
    article: list[object] = []
    with replacing(path) as new, new.open("w", encoding="utf-8") as file:
        for row, text in enumerate(generate_texts(count, seed)):
            question = _question(row, text, random) if row % every == 0 and row // every < questions else None
            article.append({"context": text, "qas": [question] if question else []})
            if len(article) == _PASSAGES_PER_ARTICLE or row == count - 1:
                line = {"title": f"글 {row // _PASSAGES_PER_ARTICLE + 1}", "paragraphs": article}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
                article = []


def _question(row: int, text: str, random: np.random.Generator) -> dict[str, object]:
    words = text.split()
    sampled_words = random.choice(words, min(8, len(words)), replace=False).tolist()
    return {
        "id": f"q{row}",
        "question": f"{' '.join(sampled_words[1:])} 무엇인가?",
        "answers": [{"text": sampled_words[0]}],
    }


def _spell_number(number: int, syllables: list[str]) -> str:
    """Return a word that is unique for each number below some billions."""
    size = len(syllables)
    rest, particle = divmod(number * _HASH_MULTIPLIER % (size**3 * len(_PARTICLES)), len(_PARTICLES))
    return syllables[rest // size**2] + syllables[rest // size % size] + syllables[rest % size] + _PARTICLES[particle]


if __name__ == "__main__":
    write_set(Path(sys.argv[2]), int(sys.argv[1]))
