"""Why a passage has its rank: comparison with another passage, and contributions in a hybrid or reranked list."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mrc_workbench.data.text.dictionary import Dictionary, normalize_word
from mrc_workbench.data.text.marking import TokenKind
from mrc_workbench.retrieval.combine import Fusion, min_max, normalize_scores
from mrc_workbench.retrieval.explain import BM25Explanation, TermContribution
from mrc_workbench.retrieval.explain.encoders import SparseExplanation, StaticExplanation
from mrc_workbench.retrieval.rankings import QueryHits, Rankings

TERMS = ("term", "kind", "in_question", "passages", "idf", "in_right", "right", "in_wrong", "wrong", "difference")
WEIGHED = (
    *("term", "kind", "question_weight", "in_right", "right_weight", "right"),
    *("in_wrong", "wrong_weight", "wrong", "difference"),
)
TOKENS = ("term", "kind", "known", "right", "wrong", "difference")


@dataclass(frozen=True)
class PassagePair:
    """Rows of the best ranked relevant passage (`right`) and of the best other one (`wrong`), None if missing."""

    right: int
    right_rank: int | None
    wrong: int | None
    wrong_rank: int | None

    @property
    def is_lost(self) -> bool:
        return self.wrong_rank is not None and (self.right_rank is None or self.wrong_rank < self.right_rank)


@dataclass(frozen=True)
class WordReason:
    """Words of the question in each passage and in none; `decisive_word` adds most to the lead, or is empty."""

    question_words: int
    in_right: int
    in_wrong: int
    missing_words: tuple[str, ...]
    decisive_word: str
    decisive_in_right: int
    decisive_in_wrong: int


def select_passage_pair(hits: QueryHits, relevant: Sequence[int], *, against: int | None = None) -> PassagePair:
    """Return the two passages to compare; `against` selects the wrong one."""
    right = next((row for row in hits.rows if row in relevant), relevant[0])
    wrong = against if against is not None else next((row for row in hits.rows if row not in relevant), None)
    return PassagePair(right, hits.rank_of(right), wrong, None if wrong is None else hits.rank_of(wrong))


def term_table(right: BM25Explanation, wrong: BM25Explanation) -> pd.DataFrame:
    """Compare the terms of two explanations, with counts (`in_...`): columns `TERMS`, largest differences first."""
    wrong_terms = {(term.text, term.kind): term for term in wrong.terms}
    rows = []
    for term in right.terms:
        other = wrong_terms[term.text, term.kind]
        row = (term.text, term.kind.value, term.in_question, term.passages, term.idf, term.in_passage, term.value)
        rows.append((*row, other.in_passage, other.value, term.value - other.value))
    return _by_difference(pd.DataFrame(rows, columns=list(TERMS)))


def option_table(
    right: BM25Explanation,
    wrong: BM25Explanation,
    dictionary: Dictionary | None,
    passage_name: Callable[[int], str],
    *,
    fields: bool,
    feedback: bool,
) -> pd.DataFrame:
    """Return the `term_table` with columns for options of BM25; `passage_name` returns the name of a passage by row.

    Fields add the counts "title_..." and "text_...". Feedback adds the "weight" in the question, "sources", and the
    kind "added". A dictionary adds "own", whether it contains the term, and "surfaces", its synonyms in the texts.
    """
    table = term_table(right, wrong)
    right_terms, wrong_terms = (_terms_in_table_order(item, table) for item in (right, wrong))
    if fields:
        for side, terms in (("right", right_terms), ("wrong", wrong_terms)):
            table[f"title_{side}"] = [item.in_title for item in terms]
            table[f"text_{side}"] = [item.in_text for item in terms]
            table = table.drop(columns=f"in_{side}")
    if feedback:
        sources = [", ".join(map(passage_name, item.sources)) for item in right_terms]
        table = table.assign(weight=[item.weight for item in right_terms], sources=sources)
        table["kind"] = ["added" if item.added else item.kind.value for item in right_terms]
    if dictionary:
        dictionary_words = {*dictionary.parts, *dictionary.names.values()}
        pairs = zip(right_terms, wrong_terms, strict=True)
        surfaces = [", ".join(_surfaces(pair, (right, wrong), dictionary)) for pair in pairs]
        is_own = [item.text in dictionary_words and item.kind is not TokenKind.BIGRAM for item in right_terms]
        table = table.assign(own=is_own, surfaces=surfaces)
    return table


def _terms_in_table_order(explanation: BM25Explanation, table: pd.DataFrame) -> list[TermContribution]:
    terms = {(term.text, term.kind.value): term for term in explanation.terms}
    return [terms[key] for key in zip(table["term"], table["kind"], strict=True)]


def _surfaces(
    pair: tuple[TermContribution, ...], explanations: tuple[BM25Explanation, ...], dictionary: Dictionary
) -> Iterator[str]:
    """Yield synonyms: other words of the texts that are analyzed as the term."""
    if pair[0].kind is TokenKind.BIGRAM or pair[0].text not in dictionary.names.values():
        return
    surfaces = [explanations[0].question[slice(*span)] for span in pair[0].question_spans]
    for explanation, term in zip(explanations, pair, strict=True):
        surfaces += [explanation.passage.text[slice(*span)] for span in term.passage_spans]
    yield from (surface for surface in dict.fromkeys(surfaces) if normalize_word(surface) != pair[0].text)


def token_table(right: StaticExplanation, wrong: StaticExplanation) -> pd.DataFrame:
    """Compare the question's tokens in two cosines: columns `TOKENS`, the largest differences first."""
    rows = []
    other = {(token.text, token.kind): token.value for token in wrong.question_tokens}
    for token in right.question_tokens:
        wrong_value = other[token.text, token.kind]
        rows.append((token.text, token.kind.value, token.known, token.value, wrong_value, token.value - wrong_value))
    return _by_difference(pd.DataFrame(rows, columns=list(TOKENS)))


def weighted_term_table(right: SparseExplanation, wrong: SparseExplanation) -> pd.DataFrame:
    """Compare the weighted terms of two dot products: columns `WEIGHED`.

    `in_...` is whether the term occurs in a passage, `..._weight` the model's weight. `kind` is where it occurs:
    "question", "passage" (only in a passage) or "expansion" (in no text).
    """
    right_terms = {term.text: term for term in right.terms}
    wrong_terms = {term.text: term for term in wrong.terms}
    rows = []
    for text in dict.fromkeys([*right_terms, *wrong_terms]):
        sides = [side.get(text) for side in (right_terms, wrong_terms)]
        known = next(term for term in sides if term)
        is_present = [bool(term and term.passage_spans) for term in sides]
        kind = "question" if known.question_spans else "passage" if any(is_present) else "expansion"
        passage_weights = [term.passage if term else 0.0 for term in sides]
        values = [term.value if term else 0.0 for term in sides]
        right_cells, wrong_cells = zip(is_present, passage_weights, values, strict=True)
        rows.append((text, kind, known.question, *right_cells, *wrong_cells, values[0] - values[1]))
    return _by_difference(pd.DataFrame(rows, columns=list(WEIGHED)))


def word_reason(table: pd.DataFrame, *, lost: bool) -> WordReason:
    """Summarize a `term_table` for a sentence. Bigrams count only if there are no words."""
    words = table[table["kind"] != TokenKind.BIGRAM.value]
    words = words if len(words) else table
    ahead = -words["difference"] if lost else words["difference"]
    decisive = words.iloc[int(ahead.to_numpy().argmax())] if len(words) and ahead.max() > 0 else None
    in_right, in_wrong = (int((words[column] > 0).sum()) for column in ("in_right", "in_wrong"))
    missing_words = tuple(words["term"][words["passages"] == 0])
    if decisive is None:
        return WordReason(len(words), in_right, in_wrong, missing_words, "", 0, 0)
    counts = (int(decisive["in_right"]), int(decisive["in_wrong"]))
    return WordReason(len(words), in_right, in_wrong, missing_words, str(decisive["term"]), *counts)


def decisive_token(table: pd.DataFrame, *, lost: bool) -> str:
    """Return the token of a `token_table` that adds most to the lead, words before bigrams; empty if none does."""
    ahead = table.assign(lead=-table["difference"] if lost else table["difference"])
    ahead = ahead[ahead["lead"] > 0].sort_values("lead", ascending=False, kind="stable")
    words = ahead[ahead["kind"] != TokenKind.BIGRAM.value]
    return str((words if len(words) else ahead)["term"].iloc[0]) if len(ahead) else ""


def _by_difference(table: pd.DataFrame) -> pd.DataFrame:
    order = table["difference"].abs().sort_values(ascending=False, kind="stable").index
    return table.loc[order].reset_index(drop=True)


@dataclass(frozen=True)
class ComponentContribution:
    """Rank and score of a passage in a component's list, None if missing, and `value = weight * normalised`."""

    rank: int | None
    score: float | None
    normalised: float | None
    weight: float
    value: float


@dataclass(frozen=True)
class FusionExplanation:
    """The contributions of retrievers, by name, to the fused score of a passage; their values sum to it."""

    components: Mapping[str, ComponentContribution]

    @property
    def score(self) -> float:
        return math.fsum(component.value for component in self.components.values())


@dataclass(frozen=True)
class RerankExplanation:
    """Ranks before and after reranking, and the new score, which is the sum of `first` and `reranker`, if any."""

    rank_before: int | None
    rank_after: int | None
    score: float | None
    first: ComponentContribution | None = None
    reranker: ComponentContribution | None = None


def fusion_contributions(
    lists: Mapping[str, Rankings],
    question: int,
    passage: int,
    *,
    depth: int,
    fusion: Fusion,
    weights: Sequence[float] | None = None,
    depths: Sequence[int] = (),
) -> FusionExplanation:
    """Explain the score that a hybrid of these retrievers gives a passage; question and passage are rows.

    `lists` holds the rankings of each retriever by name, in the hybrid's order, at least `depth` deep: a shorter list
    would change range and deviation. `weights` default to 1; for `depths` see `Hybrid`.
    """
    components = {}
    scored_depths = depths if depths and fusion is not Fusion.RRF else [depth] * len(lists)
    settings = zip(lists.items(), weights or [1.0] * len(lists), scored_depths, strict=True)
    for (name, rankings), weight, scored_depth in settings:
        ranking = rankings.select(slice(question, question + 1)).first(scored_depth)
        values, absent = normalize_scores(ranking, fusion)
        rank, score = _rank_and_score(ranking, passage)
        value = float(values[0, rank - 1] if rank else absent[0])
        components[name] = ComponentContribution(rank, score, value, weight, weight * value)
    return FusionExplanation(components)


def rerank_contributions(
    before: Rankings, after: Rankings, question: int, passage: int, *, depth: int, weight: float
) -> RerankExplanation:
    """Explain the new rank of a passage after reranking, without the model.

    The new score is `weight * r + (1 - weight) * f` with f the first score scaled to 0..1 over the `depth` reranked
    passages, so r follows from both lists. `before` must be at least `depth` deep.
    """
    before = before.select(slice(question, question + 1))
    after = after.select(slice(question, question + 1))
    (rank, first_score), (new_rank, score) = (_rank_and_score(ranking, passage) for ranking in (before, after))
    if rank is None or rank > depth or score is None:
        return RerankExplanation(rank, new_rank, score)
    normal = float(min_max(before.first(depth).scores)[0, rank - 1])
    first_value = (1 - weight) * normal
    value = score - first_value if weight else 0.0
    first = ComponentContribution(rank, first_score, normal, 1 - weight, first_value)
    reranker = ComponentContribution(None, None, value / weight if weight else None, weight, value)
    return RerankExplanation(rank, new_rank, score, first, reranker)


def _rank_and_score(rankings: Rankings, passage: int) -> tuple[int | None, float | None]:
    positions = np.flatnonzero(rankings.indices[0] == passage)
    return (int(positions[0]) + 1, float(rankings.scores[0, positions[0]])) if len(positions) else (None, None)
