"""Why each retriever puts the answer passage where it does, in a plain sentence or two."""

import streamlit as st

from retrieval.comparison.experiment import BM25Spec, DenseSpec, HybridSpec, RerankSpec, WindowedBM25Spec
from retrieval.explain.duel import Duel, telling_token, term_table, token_table, word_reason
from retrieval.report.colours import colour_of, shape_of
from views.compare.why.case import QuestionCase
from views.compare.why.columns import DIGITS
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
    of, spec = case.duel(name), case.spec(name)
    said = [_place(case, name, of)]
    if isinstance(spec, BM25Spec):
        return said + _of_words(case, spec, of)
    if isinstance(spec, WindowedBM25Spec):
        return [*said, word("why.best_windows", sentences=spec.sentences), *_of_words(case, spec, of)]
    if isinstance(spec, DenseSpec):
        return said + _of_cosines(case, spec, of)
    if isinstance(spec, HybridSpec):
        return [*said, _of_parts(case, spec, of)]
    if isinstance(spec, RerankSpec):
        return said + _of_reranking(case, spec, of)
    return said


def _place(case: QuestionCase, name: str, of: Duel) -> str:
    if of.right_rank is None:
        return word("why.place_none", depth=case.depth(name))
    return word("why.place_first") if of.right_rank == 1 else word("why.place_at", rank=of.right_rank)


def _of_words(case: QuestionCase, spec: BM25Spec | WindowedBM25Spec, of: Duel) -> list[str]:
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


def _of_cosines(case: QuestionCase, spec: DenseSpec, of: Duel) -> list[str]:
    if of.wrong is None:
        return []
    key, question = case.view.data.key, case.question.text
    right, wrong = (explained_static(key, spec.model, spec.title, question, row) for row in (of.right, of.wrong))
    if right is None or wrong is None:
        return _of_scores(case, spec.name, of)
    said = [word("why.cosines", right=f"{right.score:.3f}", wrong=f"{wrong.score:.3f}", rank=of.wrong_rank)]
    if telling := telling_token(token_table(right, wrong), lost=of.lost):
        said.append(word("why.token_lost" if of.lost else "why.token_won", term=telling))
    return said


def _of_scores(case: QuestionCase, name: str, of: Duel) -> list[str]:
    """Say both scores, where the ranking holds both passages."""
    if of.right_rank is None or of.wrong_rank is None:
        return []
    digits, scores = DIGITS[case.spec(name).kind], case.findings[name].scores
    right, wrong = (f"{scores[rank - 1]:.{digits}f}" for rank in (of.right_rank, of.wrong_rank))
    return [word("why.scores", right=right, wrong=wrong, rank=of.wrong_rank)]


def _of_parts(case: QuestionCase, spec: HybridSpec, of: Duel) -> str:
    parts = []
    for part in spec.of:
        rank = case.findings[part].rank_of(of.right) if part in case.findings else None
        key = "why.part_brings" if rank and rank <= spec.depth else "why.part_misses"
        parts.append(word(key, name=part, rank=rank or 0, depth=spec.depth))
    return word("why.parts", parts=", ".join(parts))


def _of_reranking(case: QuestionCase, spec: RerankSpec, of: Duel) -> list[str]:
    moved = case.view.opened.reranking(spec, case.row, of.right)
    if moved is None:
        return []
    before, after = moved.rank_before, moved.rank_after
    if before is None or before > spec.depth:
        return [word("why.not_reranked", first=spec.first, depth=spec.depth)]
    if after is None or before == after:
        return [word("why.rerank_left", first=spec.first, before=before)]
    return [word("why.rerank_up" if after < before else "why.rerank_down", first=spec.first, before=before)]
