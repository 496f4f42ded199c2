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
from views.highlight import Hit, head_html, hits_html, legend_html
from views.problem_words import reason
from views.resources.search import marked_passages
from views.resources.sets import question_set
from views.search.asking import Outcome
from views.words import plain, word


@dataclass(frozen=True)
class Answered:
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


def draw_columns(answered: Answered, specs: Sequence[Spec], names: Sequence[str]) -> None:
    """Draw the retrievers' findings side by side; `names` are all that can be picked, in their fixed order."""
    st.html(legend_html(truth=bool(answered.truth and answered.truth.answers)))
    rows = _rows_shown(answered, specs)
    marks = dict(zip(rows, marked_passages(answered.data.key, answered.question, rows), strict=True))
    for column, spec in zip(st.columns(len(specs)), specs, strict=True):
        with column:
            outcome = answered.outcomes[spec.name]
            truth = _truth_line(answered, outcome)
            st.html(head_html(spec.name, colour_of(spec.name, names), shape_of(spec.name, names), truth))
            if isinstance(outcome, Exception):
                st.error(plain(reason(outcome)), icon=":material/error:")
            elif not outcome.rows:
                st.info(word("search.found_nothing"), icon=":material/info:")
            else:
                score = f"search.score_{_score_kind(spec)}"
                st.caption(word(score), help=word(f"{score}_help"))
                hits = [_hit(answered, spec, outcome, row, marks[row]) for row in outcome.rows[: answered.k]]
                st.html(hits_html(hits))


def draw_table(answered: Answered, specs: Sequence[Spec]) -> None:
    """Draw the same findings as a table, to compare ranks and to take away."""
    found = {spec.name: outcome for spec in specs if isinstance(outcome := answered.outcomes[spec.name], Findings)}
    table = pd.DataFrame({"rank": range(1, answered.k + 1)})
    columns = {"rank": st.column_config.NumberColumn(word("search.rank"), width="small", pinned=True)}
    for spec in specs:
        if spec.name in found:
            outcome = found[spec.name]
            labels = [_label(answered, row) for row in outcome.rows[: answered.k]]
            table[f"{spec.name} passage"] = pd.Series(labels, dtype=object)
            table[f"{spec.name} score"] = pd.Series(outcome.scores[: answered.k], dtype=float)
            columns[f"{spec.name} passage"] = st.column_config.TextColumn(spec.name)
            columns[f"{spec.name} score"] = st.column_config.NumberColumn(
                word("search.score_of", name=spec.name),
                format=f"%.{_digits(spec)}f",
                help=word(f"search.score_{_score_kind(spec)}_help"),
            )
    with st.expander(word("search.as_table"), icon=":material/table:"):
        st.dataframe(table, hide_index=True, width="stretch", column_config=columns)
        content = _long_table(answered, found).to_csv(index=False).encode("utf-8-sig")
        st.download_button(word("search.csv"), content, "search.csv", "text/csv", icon=":material/download:")


def _rows_shown(answered: Answered, specs: Sequence[Spec]) -> tuple[int, ...]:
    outcomes = [answered.outcomes[spec.name] for spec in specs]
    found = [row for outcome in outcomes if isinstance(outcome, Findings) for row in outcome.rows[: answered.k]]
    return tuple(dict.fromkeys(found))


def _truth_line(answered: Answered, outcome: Outcome) -> str:
    if answered.truth is None or not answered.truth.rows or isinstance(outcome, Exception):
        return ""
    ranks = sorted(rank for row in answered.truth.rows if (rank := outcome.rank_of(row)))
    wanted = len(answered.truth.rows)
    if not ranks:
        return word("search.gold_missing", depth=DEPTH)
    listed = ", ".join(map(str, ranks))
    if wanted == 1:
        return word("search.gold_at", rank=listed)
    return word("search.gold_several", found=len(ranks), wanted=wanted, ranks=listed)


def _hit(answered: Answered, spec: Spec, outcome: Findings, row: int, passage: tuple[MarkedText, MarkedText]) -> Hit:
    rank = outcome.rows.index(row)
    notes: list[str] = []
    if isinstance(spec, HybridSpec):
        notes = [" · ".join(_part_rank(part, answered.rank(part, row)) for part in spec.of)]
    return Hit(
        rank=rank + 1,
        score=f"{outcome.scores[rank]:.{_digits(spec)}f}",
        passage_id=answered.questions.passages[row].id,
        title=passage[0],
        text=passage[1],
        relevant=answered.relevant(row),
        notes=notes,
        before=answered.rank(spec.first, row) if isinstance(spec, RerankSpec) else None,
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


def _label(answered: Answered, row: int) -> str:
    passage = answered.questions.passages[row]
    label = f"{passage.title} · {passage.id}" if passage.title else passage.id
    return f"✔ {label}" if answered.relevant(row) else label


def _long_table(answered: Answered, found: dict[str, Findings]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "question": answered.question,
                "retriever": name,
                "rank": rank,
                "passage_id": answered.questions.passages[row].id,
                "title": answered.questions.passages[row].title,
                "score": outcome.scores[rank - 1],
                "relevant": answered.relevant(row) if answered.truth else None,
            }
            for name, outcome in found.items()
            for rank, row in enumerate(outcome.rows[: answered.k], start=1)
        ]
    )
