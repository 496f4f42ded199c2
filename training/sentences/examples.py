"""What each objective is shown: columns of sentences, and what batches must know of them.

Batches are drawn at random, anew each epoch. Where other examples' sentences are negatives, none of a batch follows
from a sentence whose example it does not stand in.
"""

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array

from data.pairs.records import PairSet
from training.engine.task import Columns, Examples
from training.options.common import TrainingError
from training.options.sentences import SentenceObjective, SentenceOptions
from training.sentences.triples import triples_of


def encoder_examples(options: SentenceOptions, pairs: PairSet) -> tuple[Columns, Examples]:
    """What an objective reads of some pairs, the label where it has one in the last column.

    Raises `TrainingError` `no_triples` where labelled pairs make none.
    """
    match options.objective:
        case SentenceObjective.TRIPLET | SentenceObjective.SIMCSE_SUPERVISED:
            return _triples(pairs, contrasts=options.contrasts)
        case SentenceObjective.SIMCSE_UNSUPERVISED:
            sentences = pairs.sentences
            return _apart({"sentence": sentences, "again": list(sentences)}, contrasts=True)
        case SentenceObjective.TSDAE:
            sentences = pairs.sentences
            return _apart({"damaged": damaged(sentences, options.deletion, options.seed), "whole": sentences})
        case SentenceObjective.DISTILLATION:
            return _apart(_texts(pairs))  # the label is a teacher's
        case SentenceObjective.NLI_SOFTMAX:
            return labelled_pairs(pairs, pairs.values)
        case SentenceObjective.COSINE | SentenceObjective.COSENT:
            return labelled_pairs(pairs, pairs.gold)


def labelled_pairs(pairs: PairSet, labels: np.ndarray) -> tuple[Columns, Examples]:
    """Both sentences and a label, any of which may stand together."""
    columns, examples = _apart(_texts(pairs))
    return columns | {"label": labels.tolist()}, examples


def damaged(sentences: Sequence[str], deletion: float, seed: int) -> list[str]:
    """Take words from sentences, each with the probability `deletion`; one is left at least (Wang et al. 2021, 3).

    A word is what stands between spaces. The same seed takes the same words: a training that goes on reads what it did.
    """
    rng = np.random.default_rng(seed)
    found = []
    for sentence in sentences:
        words = sentence.split()
        stays = rng.random(len(words)) >= deletion
        if len(words) and not stays.any():
            stays[rng.integers(len(words))] = True
        found.append(" ".join(word for word, is_left in zip(words, stays, strict=True) if is_left))
    return found


def _texts(pairs: PairSet) -> Columns:
    return {f"sentence_{number}": list(column) for number, column in enumerate(pairs.texts, start=1)}


def _triples(pairs: PairSet, *, contrasts: bool) -> tuple[Columns, Examples]:
    triples = triples_of(pairs)
    if not len(triples.rows):
        message = f"{pairs.name} holds no premise with both an entailed and a contradicted sentence"
        raise TrainingError("no_triples", message)
    columns = {
        name: [triples.sentences[row] for row in column.tolist()]
        for name, column in zip(("sentence", "positive", "negative"), triples.rows.T, strict=True)
    }
    shown = triples.rows[:, 1:].astype(np.int32)
    lengths, order = _lengths(columns), np.arange(len(shown))
    return columns, Examples(triples.rows[:, 0], shown, triples.relevance, lengths, contrasts, order)


def _apart(columns: Columns, *, contrasts: bool = False) -> tuple[Columns, Examples]:
    """Examples of which none holds what another one does."""
    rows = np.arange(len(next(iter(columns.values()))))
    itself = csr_array((np.ones(len(rows), dtype=np.int32), (rows, rows)))
    return columns, Examples(rows, rows[:, None].astype(np.int32), itself, _lengths(columns), contrasts, rows)


def _lengths(columns: Columns) -> np.ndarray:
    lengths: np.ndarray = np.sum([[len(text) for text in column] for column in columns.values()], axis=0, dtype=float)
    return lengths
