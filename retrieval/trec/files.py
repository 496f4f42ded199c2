"""TREC files: what every evaluation tool of the field reads."""

import re
from itertools import chain, count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data.records import QuestionSet
from data.workspace import replacing, write_text
from retrieval.rankings import NOT_FOUND, Rankings

_SPACE = re.compile(r"\s+")
_UNSAFE = re.compile(r"[^\w.+-]+")
_QRELS = "qrels"
_BLOCK = 100_000  # lines written at a time
_LONGEST_STEM = 60  # a file name holds 255 bytes, a Korean letter takes 3


def write_qrels(path: Path, question_set: QuestionSet) -> None:
    """Write `question 0 passage 1` for every relevant passage of every question."""
    questions, passages = trec_ids(question_set)
    pairs = zip(questions, question_set.questions, strict=True)
    lines = [f"{id_} 0 {passages[question_set.row_of_passage[p]]} 1" for id_, q in pairs for p in q.relevant]
    write_text(path, "".join(line + "\n" for line in lines))


def write_run(path: Path, rankings: Rankings, question_set: QuestionSet, name: str) -> None:
    """Write `question Q0 passage rank score name` for every passage found, ranks from 1.

    Evaluation tools order by score alone and ties by id: a score that ties with the one before is written one float32
    step lower, so that they see our order.
    """
    questions, passages = (pa.array(ids, pa.large_string()) for ids in trec_ids(question_set))
    rows, places = np.nonzero(rankings.indices != NOT_FOUND)
    scores = without_ties(rankings.scores)
    last = pa.scalar(_SPACE.sub("_", name) + "\n", pa.large_string())
    with replacing(path) as new, new.open("wb") as file:
        for start in range(0, len(rows), _BLOCK):
            row, place = rows[start : start + _BLOCK], places[start : start + _BLOCK]
            columns = (
                questions.take(pa.array(row)),
                pa.scalar("Q0", pa.large_string()),
                passages.take(pa.array(rankings.indices[row, place])),
                pc.cast(pa.array(place + 1), pa.large_string()),
                pc.cast(pa.array(scores[row, place]), pa.large_string()),  # so that reading gives the same float32
                last,
                pa.scalar(" ", pa.large_string()),
            )
            # no writer of tables: an id may hold their quotation marks, which mean nothing here
            file.write("".join(pc.binary_join_element_wise(*columns).to_pylist()).encode())


def without_ties(scores: np.ndarray) -> np.ndarray:
    """Lower each score that is not under the one before it, of the same row, to the next float32 below that one."""
    scores = scores.copy()
    for place in range(1, scores.shape[1]):
        next_lower = np.nextafter(scores[:, place - 1], np.float32(-np.inf))
        scores[:, place] = np.minimum(scores[:, place], next_lower)
    return scores


def trec_ids(question_set: QuestionSet) -> tuple[list[str], list[str]]:
    """Ids of questions and passages without white space, which separates the columns; still all different."""
    return (
        _without_space([question.id for question in question_set.questions], "q"),
        _without_space(list(question_set.passages.ids), "p"),
    )


def _without_space(ids: list[str], letter: str) -> list[str]:
    mended = [_SPACE.sub("_", id_) for id_ in ids]
    return mended if len(set(mended)) == len(mended) else [f"{letter}{row + 1}" for row in range(len(ids))]


def file_names(names: list[str]) -> list[str]:
    """Return a safe, different file stem for each name of a retriever; none is that of the judgements."""
    stems = {_QRELS: _QRELS}  # by the form that a file system without letter case sees
    for name in names:
        stem = _UNSAFE.sub("_", name).strip(".")[:_LONGEST_STEM] or "retriever"
        choices = chain([stem], (f"{stem}-{number}" for number in count(2)))
        chosen = next(choice for choice in choices if choice.casefold() not in stems)
        stems[chosen.casefold()] = chosen
    return list(stems.values())[1:]
