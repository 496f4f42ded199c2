"""Runs that a user brings: rankings of another system as a dictionary, a table or a TREC file."""

import csv
import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from mrc_workbench.api.errors import ApiError
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.retrieval.comparison.experiment import add_run
from mrc_workbench.retrieval.comparison.first_stage import RunSpec
from mrc_workbench.retrieval.rankings import Rankings
from mrc_workbench.retrieval.trec import read_run, run_of_rows, write_run

Run: TypeAlias = Mapping[str, Mapping[str, float]] | pd.DataFrame | str | os.PathLike[str]
_QUERY = ("query_id", "qid", "q_id", "query-id", "query", "question_id", "question")
_PASSAGE = ("doc_id", "docno", "docid", "passage_id", "corpus-id", "corpus_id", "pid", "doc", "passage")
_SCORE = ("score", "sim", "rsv")
_GRADE = ("relevance", "rel", "grade", "label", "score")


def rankings_of_run(run: Run, question_set: QuestionSet, name: str) -> Rankings:
    """Return a run as rankings over a question set. Raises `RunError` and `ApiError`."""
    if isinstance(run, str | os.PathLike):
        return read_run(Path(run).expanduser(), question_set, os.fspath(run))[0]
    return run_of_rows(run_table(run), question_set, name)[0]


def store_run(run: Run, question_set: QuestionSet, name: str) -> RunSpec:
    """Store a run in the workspace as the page stores an imported one; returns its spec. Raises `RunError`."""
    rankings = rankings_of_run(run, question_set, name)
    with TemporaryDirectory() as folder:
        path = Path(folder, "run.trec")
        write_run(path, rankings, question_set, name)
        return add_run(question_set, name, path.read_bytes(), name)


def run_table(run: Mapping[str, Mapping[str, float]] | pd.DataFrame) -> pd.DataFrame:
    """Return a run as a table with the columns question, passage and score. Raises `ApiError`."""
    if isinstance(run, pd.DataFrame):
        columns = {"question": _column(run, _QUERY), "passage": _column(run, _PASSAGE), "score": _column(run, _SCORE)}
        table = pd.DataFrame({new: run[old].to_numpy() for new, old in columns.items()})
    else:
        rows = [(query, passage, score) for query, found in run.items() for passage, score in found.items()]
        table = pd.DataFrame(rows, columns=["question", "passage", "score"])
    try:
        scores = table["score"].to_numpy(dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ApiError("wrong_score", f"a run needs numbers as scores: {error}") from error
    if not len(table) or not np.isfinite(scores).all():
        raise ApiError("wrong_score", "a run needs at least one passage, and finite numbers as scores")
    ids = {column: table[column].astype(str).astype("category") for column in ("question", "passage")}
    return pd.DataFrame({**ids, "score": scores})


def judgements(qrels: Any) -> dict[str, dict[str, int]]:
    """Return judgements as grades by passage id by question id: of a dictionary, a table or a TREC file.

    Raises `ApiError`.
    """
    if isinstance(qrels, Mapping):
        return {str(query): {str(id_): _grade(grade) for id_, grade in of.items()} for query, of in qrels.items()}
    if isinstance(qrels, str | os.PathLike):
        qrels = _qrels_table(Path(qrels).expanduser())
    columns = [_column(qrels, names) for names in (_QUERY, _PASSAGE, _GRADE)]
    grades: dict[str, dict[str, int]] = {}
    for query, passage, grade in qrels[columns].itertuples(index=False, name=None):
        grades.setdefault(str(query), {})[str(passage)] = _grade(grade)
    return grades


def _qrels_table(path: Path) -> pd.DataFrame:
    """Read judgements of TREC (four columns) or BEIR (three columns with a header)."""
    names = ["query_id", "iteration", "doc_id", "relevance"]
    try:
        with path.open(encoding="utf-8-sig") as file:
            has_header = len(file.readline().split()) == 3
        options: dict[str, Any] = {"sep": r"\s+", "dtype": str, "keep_default_na": False, "quoting": csv.QUOTE_NONE}
        options |= {"encoding": "utf-8-sig"} if has_header else {"encoding": "utf-8-sig", "names": names}
        table: pd.DataFrame = pd.read_csv(path, **options)
        return table
    except (OSError, ValueError) as error:
        raise ApiError("wrong_qrels", f"{path} cannot be read as judgements of TREC or BEIR: {error}") from error


def _grade(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError) as error:
        raise ApiError("wrong_qrels", f"a grade must be a whole number, not {value!r}") from error


def _column(table: pd.DataFrame, names: tuple[str, ...]) -> str:
    folded = {str(column).casefold(): str(column) for column in table.columns}
    for name in names:
        if name in folded:
            return folded[name]
    given = ", ".join(map(repr, table.columns))
    raise ApiError(
        "missing_column", f"the table needs a column {names[0]!r} (or {', '.join(names[1:])}); it has {given}"
    )
