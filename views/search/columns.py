"""One retriever's findings beside the others', and all of them as a table."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from data.records import QuestionSet
from data.store import StoredSet
from retrieval.asking import DEPTH, Findings, Truth
from retrieval.comparison.experiment import HybridSpec, MilvusSpec, RerankSpec, Spec
from retrieval.milvus.kinds import Ranker
from retrieval.report.colours import colour_of, shape_of
from text.marking import MarkedText
from views import tables
from views.highlight import Hit, head_html, hits_html, legend_html
from views.problem_words import search_failure_text
from views.resources.search import marked_passages
from views.resources.sets import question_set
from views.search.asking import Outcome
from views.words import plain, word


@dataclass(frozen=True)
class SearchAnswer:
    """A question, what each retriever found (those that others wrap included), and what the set knows of it."""

    data: StoredSet
    question: str
    outcomes: dict[str, Outcome]
    truth: Truth | None
    k: int

    @property
    def questions(self) -> QuestionSet:
        """The question set searched."""
        return question_set(self.data.key)

    def relevant(self, row: int) -> bool:
        """Whether a passage is known to answer."""
        return self.truth is not None and row in self.truth.rows

    def rank(self, name: str, row: int) -> int | None:
        """Rank of a passage for a retriever."""
        outcome = self.outcomes[name]
        return outcome.rank_of(row) if isinstance(outcome, Findings) else None


def draw_columns(answer: SearchAnswer, specs: Sequence[Spec], names: Sequence[str]) -> None:
    """Draw the retrievers' findings side by side; `names` are all that can be picked, in their fixed order."""
    st.html(legend_html(truth=bool(answer.truth and answer.truth.answers)))
    rows = _rows_shown(answer, specs)
    marks = dict(zip(rows, marked_passages(answer.data.key, answer.question, rows), strict=True))
    for column, spec in zip(st.columns(len(specs)), specs, strict=True):
        with column:
            outcome = answer.outcomes[spec.name]
            truth = _truth_line(answer, outcome)
            st.html(head_html(spec.name, colour_of(spec.name, names), shape_of(spec.name, names), truth))
            if isinstance(outcome, Exception):
                st.error(plain(search_failure_text(outcome)), icon=":material/error:")
            elif not outcome.rows:
                st.info(word("search.found_nothing"), icon=":material/info:")
            else:
                score = f"search.score_{_score_kind(spec)}"
                st.caption(word(score), help=word(f"{score}_help"))
                hits = [_hit(answer, spec, outcome, row, marks[row]) for row in outcome.rows[: answer.k]]
                st.html(hits_html(hits))


def draw_table(answer: SearchAnswer, specs: Sequence[Spec]) -> None:
    """Draw the same findings as a table, to compare ranks and to take away."""
    found = {spec.name: outcome for spec in specs if isinstance(outcome := answer.outcomes[spec.name], Findings)}
    table = pd.DataFrame({"rank": range(1, answer.k + 1)})
    columns = {"rank": tables.number("search.rank", width="small", pinned=True)}
    for spec in specs:
        if spec.name in found:
            outcome = found[spec.name]
            labels = [_label(answer, row) for row in outcome.rows[: answer.k]]
            table[f"{spec.name} passage"] = pd.Series(labels, dtype=object)
            table[f"{spec.name} score"] = pd.Series(outcome.scores[: answer.k], dtype=float)
            columns[f"{spec.name} passage"] = st.column_config.TextColumn(spec.name)
            columns[f"{spec.name} score"] = st.column_config.NumberColumn(
                word("search.score_of", name=spec.name),
                format=f"%.{_digits(spec)}f",
                help=word(f"search.score_{_score_kind(spec)}_help"),
            )
    with st.expander(word("search.as_table"), icon=":material/table:"):
        st.dataframe(table, hide_index=True, column_config=columns)
        tables.draw_csv("search.csv", lambda: _long_table(answer, found), "search.csv")


def _rows_shown(answer: SearchAnswer, specs: Sequence[Spec]) -> tuple[int, ...]:
    outcomes = [answer.outcomes[spec.name] for spec in specs]
    found = [row for outcome in outcomes if isinstance(outcome, Findings) for row in outcome.rows[: answer.k]]
    return tuple(dict.fromkeys(found))


def _truth_line(answer: SearchAnswer, outcome: Outcome) -> str:
    if answer.truth is None or not answer.truth.rows or isinstance(outcome, Exception):
        return ""
    ranks = sorted(rank for row in answer.truth.rows if (rank := outcome.rank_of(row)))
    wanted = len(answer.truth.rows)
    if not ranks:
        return word("search.gold_missing", depth=DEPTH)
    listed = ", ".join(map(str, ranks))
    if wanted == 1:
        return word("search.gold_at", rank=listed)
    return word("search.gold_several", found=len(ranks), wanted=wanted, ranks=listed)


def _hit(answer: SearchAnswer, spec: Spec, outcome: Findings, row: int, passage: tuple[MarkedText, MarkedText]) -> Hit:
    rank = outcome.rows.index(row)
    notes: list[str] = []
    if isinstance(spec, HybridSpec):
        notes = [" · ".join(_part_rank(part, answer.rank(part, row)) for part in spec.of)]
    return Hit(
        rank=rank + 1,
        score=f"{outcome.scores[rank]:.{_digits(spec)}f}",
        passage_id=answer.questions.passages[row].id,
        title=passage[0],
        text=passage[1],
        relevant=answer.relevant(row),
        notes=notes,
        before=answer.rank(spec.first, row) if isinstance(spec, RerankSpec) else None,
    )


def _part_rank(name: str, rank: int | None) -> str:
    return word("search.part_rank", name=name, rank=rank) if rank else word("search.part_missing", name=name)


def _digits(spec: Spec) -> int:
    return {"bm25": 2, "hybrid": 4}.get(_score_kind(spec), 3)


def _score_kind(spec: Spec) -> str:
    if isinstance(spec, MilvusSpec):
        local = spec.local
        fused = "hybrid" if spec.fusion is Ranker.RRF else "milvus"
        return fused if isinstance(local, MilvusSpec) else local.kind
    return spec.kind.split("-")[0]  # a score of windows is one of BM25


def _label(answer: SearchAnswer, row: int) -> str:
    passage = answer.questions.passages[row]
    label = f"{passage.title} · {passage.id}" if passage.title else passage.id
    return f"✔ {label}" if answer.relevant(row) else label


def _long_table(answer: SearchAnswer, found: dict[str, Findings]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "question": answer.question,
                "retriever": name,
                "rank": rank,
                "passage_id": answer.questions.passages[row].id,
                "title": answer.questions.passages[row].title,
                "score": outcome.scores[rank - 1],
                "relevant": answer.relevant(row) if answer.truth else None,
            }
            for name, outcome in found.items()
            for rank, row in enumerate(outcome.rows[: answer.k], start=1)
        ]
    )
