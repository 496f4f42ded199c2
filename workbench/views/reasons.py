"""Why each retriever puts the answer passage where it does, in a plain sentence or two."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch

import streamlit as st

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.text.dictionary import DictionaryError
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec, LateSpec, SparseSpec, TermSpec, WindowedBM25Spec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec, LearnedSpec, RerankSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.explain.standing import Duel, duel, telling_token, term_table, token_table, word_reason
from mrc_workbench.retrieval.rankings import Findings
from mrc_workbench.workbench.views.names import retriever_name
from mrc_workbench.workbench.views.resources.retrieval import counted_bm25, explained_static
from mrc_workbench.workbench.views.ui.passages import reason_html
from mrc_workbench.workbench.views.ui.words import failure_text, word


@dataclass(frozen=True)
class AskedQuestion:
    """A question, the rows that answer it, and what retrievers found, those that others wrap included.

    `key` is that of the stored set, `depths` are those of the searches, `among` the questions searched together.
    """

    key: str
    text: str
    relevant: tuple[int, ...]
    findings: Mapping[str, Findings]
    depths: Mapping[str, int]
    among: QuestionSet | None = None

    def duel(self, name: str, against: int | None = None) -> Duel:
        return duel(self.findings[name], self.relevant, against=against)


def draw(asked: AskedQuestion, specs: Sequence[Spec], names: Sequence[str]) -> None:
    st.html("".join(reason_html(spec.name, names, " ".join(sentences(asked, spec))) for spec in specs))


def sentences(asked: AskedQuestion, spec: Spec) -> list[str]:
    of = asked.duel(spec.name)
    if of.right_rank is None:
        place = word("why.place_none", depth=asked.depths[spec.name])
    else:
        place = word("why.place_first") if of.right_rank == 1 else word("why.place_at", rank=of.right_rank)
    return [place, *_reasons(spec.local, asked, of)]


@singledispatch
def _reasons(spec: Spec, asked: AskedQuestion, of: Duel) -> list[str]:
    del spec, asked, of
    return []


@_reasons.register
def _of_windows(spec: WindowedBM25Spec, asked: AskedQuestion, of: Duel) -> list[str]:
    return [word("why.best_windows", sentences=spec.sentences), *_of_words(spec, asked, of)]


@_reasons.register
def _of_words(spec: TermSpec, asked: AskedQuestion, of: Duel) -> list[str]:
    if of.wrong is None:
        return []
    try:
        right, wrong = (counted_bm25(asked.key, spec, asked.text, row, asked.among) for row in (of.right, of.wrong))
    except DictionaryError as error:
        return [failure_text(error)]
    table = term_table(right, wrong)
    found = word_reason(table[table["in_question"] > 0], lost=of.lost)
    said = [word("why.words_held", held=found.in_right, asked=found.asked, other=found.in_wrong, rank=of.wrong_rank)]
    if found.telling:
        counts = {"here": found.telling_in_right, "there": found.telling_in_wrong}
        said.append(word("why.word_lost" if of.lost else "why.word_won", term=found.telling, **counts))
    if found.nowhere:
        listed = ", ".join(word("why.quoted", text=text) for text in found.nowhere[:3])
        said.append(word("why.words_nowhere", terms=listed))
    if len(added := table[table["in_question"] == 0]):
        sums = {side: f"{added[side].sum():.{spec.digits}f}" for side in ("right", "wrong")}
        said.append(word("why.words_added", count=len(added), **sums))
    return said


@_reasons.register
def _of_cosines(spec: DenseSpec, asked: AskedQuestion, of: Duel) -> list[str]:
    if of.wrong is None:
        return []
    key, question = asked.key, asked.text
    right, wrong = (explained_static(key, spec.model, spec.title, question, row) for row in (of.right, of.wrong))
    if right is None or wrong is None:
        return _of_scores(spec, asked, of, "why.cosines")
    said = [word("why.cosines", right=f"{right.score:.3f}", wrong=f"{wrong.score:.3f}", rank=of.wrong_rank)]
    if telling := telling_token(token_table(right, wrong), lost=of.lost):
        said.append(word("why.token_lost" if of.lost else "why.token_won", term=telling))
    return said


@_reasons.register(LateSpec)
@_reasons.register(SparseSpec)
def _of_scores(spec: Spec, asked: AskedQuestion, of: Duel, key: str = "why.scores") -> list[str]:
    if of.right_rank is None or of.wrong_rank is None:
        return []
    scores = asked.findings[spec.name].scores
    right, wrong = (f"{scores[rank - 1]:.{spec.digits}f}" for rank in (of.right_rank, of.wrong_rank))
    return [word(key, right=right, wrong=wrong, rank=of.wrong_rank)]


@_reasons.register
def _of_parts(spec: HybridSpec | LearnedSpec, asked: AskedQuestion, of: Duel) -> list[str]:
    parts = []
    for part in spec.of:
        rank = asked.findings[part].rank_of(of.right) if part in asked.findings else None
        key = "why.part_brings" if rank and rank <= spec.depth else "why.part_misses"
        parts.append(word(key, name=retriever_name(part), rank=rank or 0, depth=spec.depth))
    return [word("why.parts", parts=", ".join(parts))]


@_reasons.register
def _of_reranking(spec: RerankSpec, asked: AskedQuestion, of: Duel) -> list[str]:
    if spec.first not in asked.findings:
        return []
    before, after = asked.findings[spec.first].rank_of(of.right), of.right_rank
    first = retriever_name(spec.first)
    if before is None or before > spec.depth:
        return [word("why.not_reranked", first=first, depth=spec.depth)]
    if after is None or before == after:
        return [word("why.rerank_left", first=first, before=before)]
    return [word("why.rerank_up" if after < before else "why.rerank_down", first=first, before=before)]
