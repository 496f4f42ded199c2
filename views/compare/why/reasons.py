"""Why each retriever puts the answer passage where it does, in a plain sentence or two."""

from functools import singledispatch

import streamlit as st

from retrieval.comparison.kinds.first_stage import DenseSpec, SparseSpec, TermSpec, WindowedBM25Spec
from retrieval.comparison.kinds.multistage import HybridSpec, RerankSpec
from retrieval.comparison.kinds.spec import Spec
from retrieval.explain.duel import Duel, telling_token, term_table, token_table, word_reason
from retrieval.report.colours import colour_of, shape_of
from views.compare.why.case import QuestionCase
from views.highlight import reason_html
from views.resources.explanations import explained_bm25, explained_static
from views.words import word

_NOWHERE_SHOWN = 3


def draw(case: QuestionCase) -> None:
    """Draw one line a retriever."""
    lines = []
    for name in case.question_list.names:
        colour, shape = colour_of(name, case.view.names), shape_of(name, case.view.names)
        lines.append(reason_html(name, colour, shape, " ".join(sentences(case, name))))
    st.html("".join(lines))


def sentences(case: QuestionCase, name: str) -> list[str]:
    """Return what is to be said of a retriever; not Markdown."""
    of = case.duel(name)
    return [_place(case, name, of), *_reasons(case.spec(name), case, of)]


@singledispatch
def _reasons(spec: Spec, case: QuestionCase, of: Duel) -> list[str]:
    """Return why a retriever of this kind puts the passage there; nothing of one that cannot be looked into."""
    del spec, case, of
    return []


def _place(case: QuestionCase, name: str, of: Duel) -> str:
    if of.right_rank is None:
        return word("why.place_none", depth=case.depth(name))
    return word("why.place_first") if of.right_rank == 1 else word("why.place_at", rank=of.right_rank)


@_reasons.register
def _of_windows(spec: WindowedBM25Spec, case: QuestionCase, of: Duel) -> list[str]:
    return [word("why.best_windows", sentences=spec.sentences), *_of_words(spec, case, of)]


@_reasons.register
def _of_words(spec: TermSpec, case: QuestionCase, of: Duel) -> list[str]:
    if of.wrong is None:
        return []
    key, json, question = case.view.data.key, spec.model_dump_json(), case.question.text
    right, wrong = (explained_bm25(key, json, question, row) for row in (of.right, of.wrong))
    found = word_reason(term_table(right, wrong), lost=of.lost)
    said = [word("why.words_held", held=found.in_right, asked=found.asked, other=found.in_wrong, rank=of.wrong_rank)]
    if found.telling:
        counts = {"here": found.telling_in_right, "there": found.telling_in_wrong}
        said.append(word("why.word_lost" if of.lost else "why.word_won", term=found.telling, **counts))
    if found.nowhere:
        listed = ", ".join(word("why.quoted", text=text) for text in found.nowhere[:_NOWHERE_SHOWN])
        said.append(word("why.words_nowhere", terms=listed))
    return said


@_reasons.register
def _of_cosines(spec: DenseSpec, case: QuestionCase, of: Duel) -> list[str]:
    if of.wrong is None:
        return []
    key, question = case.view.data.key, case.question.text
    right, wrong = (explained_static(key, spec.model, spec.title, question, row) for row in (of.right, of.wrong))
    if right is None or wrong is None:
        return _of_scores(spec, case, of, "why.cosines")
    said = [word("why.cosines", right=f"{right.score:.3f}", wrong=f"{wrong.score:.3f}", rank=of.wrong_rank)]
    if telling := telling_token(token_table(right, wrong), lost=of.lost):
        said.append(word("why.token_lost" if of.lost else "why.token_won", term=telling))
    return said


@_reasons.register
def _of_weighed_terms(spec: SparseSpec, case: QuestionCase, of: Duel) -> list[str]:
    return _of_scores(spec, case, of)


def _of_scores(spec: Spec, case: QuestionCase, of: Duel, key: str = "why.scores") -> list[str]:
    """Say both scores, where the ranking holds both passages."""
    if of.right_rank is None or of.wrong_rank is None:
        return []
    scores = case.findings[spec.name].scores
    right, wrong = (f"{scores[rank - 1]:.{spec.digits}f}" for rank in (of.right_rank, of.wrong_rank))
    return [word(key, right=right, wrong=wrong, rank=of.wrong_rank)]


@_reasons.register
def _of_parts(spec: HybridSpec, case: QuestionCase, of: Duel) -> list[str]:
    parts = []
    for part in spec.of:
        rank = case.findings[part].rank_of(of.right) if part in case.findings else None
        key = "why.part_brings" if rank and rank <= spec.depth else "why.part_misses"
        parts.append(word(key, name=part, rank=rank or 0, depth=spec.depth))
    return [word("why.parts", parts=", ".join(parts))]


@_reasons.register
def _of_reranking(spec: RerankSpec, case: QuestionCase, of: Duel) -> list[str]:
    moved = case.view.opened.reranking(spec, case.row, of.right)
    if moved is None:
        return []
    before, after = moved.rank_before, moved.rank_after
    if before is None or before > spec.depth:
        return [word("why.not_reranked", first=spec.first, depth=spec.depth)]
    if after is None or before == after:
        return [word("why.rerank_left", first=spec.first, before=before)]
    return [word("why.rerank_up" if after < before else "why.rerank_down", first=spec.first, before=before)]
