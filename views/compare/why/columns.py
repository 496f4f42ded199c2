"""A question's ranking in every retriever, side by side, as the comparison kept it: nothing is searched."""

import streamlit as st

from data.remarks import Remarks
from retrieval.comparison.experiment import HybridSpec, RerankSpec, Spec
from retrieval.report.colours import colour_of, shape_of
from text.marking import MarkedText
from views.compare.address import tie
from views.compare.why import remarks as compare_remarks
from views.compare.why.case import QuestionCase
from views.highlight import Hit, head_html, hits_html, legend_html
from views.resources.search import marked_passages
from views.words import word

_SIDE_BY_SIDE = 4
_COUNTS = ("3", "5", "10", "20")
DIGITS = {
    "bm25": 2,
    "bm25-windows": 2,
    "dense": 3,
    "rerank": 3,
    "hybrid": 4,
    "run": 4,
    "milvus": 4,
}  # of a score, by the kind of retriever


def draw(case: QuestionCase, remarks: Remarks) -> None:
    """Draw a column a retriever, four in a row."""
    count = _draw_count()
    st.html(legend_html(truth=bool(case.question.answers)))
    names = case.question_list.names
    rows = tuple(dict.fromkeys(row for name in names for row in _rows(case, name, count)))
    texts = dict(zip(rows, marked_passages(case.view.data.key, case.question.text, rows), strict=True))
    for first in range(0, len(names), _SIDE_BY_SIDE):
        side_by_side = names[first : first + _SIDE_BY_SIDE]
        # as wide as the others, however few are left for the last row
        for place, name in zip(st.columns(min(_SIDE_BY_SIDE, len(names))), side_by_side, strict=False):
            with place:
                _draw_column(case, name, count, texts, remarks)


def _draw_count() -> int:
    chosen = st.query_params.get("n", "")
    count = chosen if chosen in _COUNTS else "5"
    place = tie("n", count)
    st.segmented_control(word("search.k"), _COUNTS, help=word("why.rankings_help"), **place)
    return int(count)


def _rows(case: QuestionCase, name: str, count: int) -> list[int]:
    """Return rows of the first passages found, and of those that answer wherever they were found."""
    found = case.findings[name].rows
    return [*found[:count], *(row for row in found[count:] if row in case.relevant)]


def _draw_column(
    case: QuestionCase, name: str, count: int, texts: dict[int, tuple[MarkedText, MarkedText]], remarks: Remarks
) -> None:
    colour, shape = colour_of(name, case.view.names), shape_of(name, case.view.names)
    st.html(head_html(name, colour, shape, _truth(case, name)))
    rows = _rows(case, name, count)
    if not rows:
        st.info(word("why.found_nothing"), icon=":material/info:")
    spec = case.spec(name)
    for row in rows:
        st.html(hits_html([_hit(case, spec, row, texts[row])]))
        if row not in case.relevant:
            id_ = case.passage(row).id
            fingerprint = case.view.data.fingerprint
            compare_remarks.draw_mark(fingerprint, remarks, case.question.id, id_, f"{name} {row}")


def _truth(case: QuestionCase, name: str) -> str:
    ranks = sorted(rank for row in case.relevant if (rank := case.findings[name].rank_of(row)))
    wanted = len(case.relevant)
    if not ranks:
        return word("search.gold_missing", depth=case.depth(name))
    if wanted == 1:
        return word("search.gold_at", rank=ranks[0])
    return word("search.gold_several", found=len(ranks), wanted=wanted, ranks=", ".join(map(str, ranks)))


def _hit(case: QuestionCase, spec: Spec, row: int, passage: tuple[MarkedText, MarkedText]) -> Hit:
    found = case.findings[spec.name]
    place = found.rows.index(row)
    notes = [" · ".join(_part(case, part, row) for part in spec.of)] if isinstance(spec, HybridSpec) else []
    first = spec.first if isinstance(spec, RerankSpec) and spec.first in case.findings else None
    return Hit(
        rank=place + 1,
        score=f"{found.scores[place]:.{DIGITS[spec.kind]}f}",
        passage_id=case.passage(row).id,
        title=passage[0],
        text=passage[1],
        relevant=row in case.relevant,
        notes=notes,
        before=case.findings[first].rank_of(row) if first else None,
        confuser=row in case.confusers,
    )


def _part(case: QuestionCase, name: str, row: int) -> str:
    rank = case.findings[name].rank_of(row) if name in case.findings else None
    return word("search.part_rank", name=name, rank=rank) if rank else word("search.part_missing", name=name)
