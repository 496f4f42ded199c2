"""Why a passage has its rank: compared with another passage, and in a hybrid or reranked list.

Two passages are compared by the parts of both scores; for a hybrid and a reranker, by what each component adds.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from mrc_workbench.data.text.dictionary import Dictionary, name_of
from mrc_workbench.data.text.marking import TokenKind
from mrc_workbench.retrieval.combine import Fusion, min_max, normalised
from mrc_workbench.retrieval.explain import BM25Explanation, TermContribution
from mrc_workbench.retrieval.explain.encoders import SparseExplanation, StaticExplanation
from mrc_workbench.retrieval.rankings import Findings, Rankings

TERMS = ("term", "kind", "in_question", "passages", "idf", "in_right", "right", "in_wrong", "wrong", "difference")
WEIGHED = (
    *("term", "kind", "asked", "in_right", "held_right", "right"),
    *("in_wrong", "held_wrong", "wrong", "difference"),
)
TOKENS = ("term", "kind", "known", "right", "wrong", "difference")


@dataclass(frozen=True)
class Duel:
    """Rows of the best ranked relevant passage (`right`) and of the best other one (`wrong`), None if missing."""

    right: int
    right_rank: int | None
    wrong: int | None
    wrong_rank: int | None

    @property
    def lost(self) -> bool:
        return self.wrong_rank is not None and (self.right_rank is None or self.wrong_rank < self.right_rank)


@dataclass(frozen=True)
class WordReason:
    """How many of the question's words (`asked`) each passage holds; `nowhere` are words that no passage holds.

    `telling` is the word that adds most to the lead of the passage that is ahead, with its counts in both, or empty.
    """

    asked: int
    in_right: int
    in_wrong: int
    nowhere: tuple[str, ...]
    telling: str
    telling_in_right: int
    telling_in_wrong: int


def duel(found: Findings, relevant: Sequence[int], *, against: int | None = None) -> Duel:
    """Return the two passages to set against each other; `against` names the wrong one."""
    right = next((row for row in found.rows if row in relevant), relevant[0])
    wrong = against if against is not None else next((row for row in found.rows if row not in relevant), None)
    return Duel(right, found.rank_of(right), wrong, None if wrong is None else found.rank_of(wrong))


def term_table(right: BM25Explanation, wrong: BM25Explanation) -> pd.DataFrame:
    """Set the terms of two explanations side by side: columns `TERMS`, the largest differences first.

    `in_...` are counts, `passages` the document frequency; `right` and `wrong` sum to the two scores.
    """
    theirs = {(term.text, term.kind): term for term in wrong.terms}
    rows = []
    for term in right.terms:
        other = theirs[term.text, term.kind]
        facts = (term.text, term.kind.value, term.in_question, term.passages, term.idf)
        rows.append((*facts, term.in_passage, term.value, other.in_passage, other.value, term.value - other.value))
    return _by_difference(pd.DataFrame(rows, columns=list(TERMS)))


def option_table(
    right: BM25Explanation,
    wrong: BM25Explanation,
    dictionary: Dictionary | None,
    called: Callable[[int], str],
    *,
    fields: bool,
    feedback: bool,
) -> pd.DataFrame:
    """Return the `term_table` with what options of BM25 add to it; `called` returns the name of a passage by its row.

    Fields: "title_..." and "text_..." count where a term stands. Feedback: "weight" in the question, "sources", and the
    kind "added". A dictionary: "own", whether it holds the term, and "stands_as", its synonyms in the texts.
    """
    table = term_table(right, wrong)
    ours, theirs = (_in_order(one, table) for one in (right, wrong))
    if fields:
        for side, terms in (("right", ours), ("wrong", theirs)):
            counts = {f"title_{side}": [one.in_title for one in terms], f"text_{side}": [one.in_text for one in terms]}
            table = table.drop(columns=f"in_{side}").assign(**counts)
    if feedback:
        sources = [", ".join(map(called, one.sources)) for one in ours]
        table = table.assign(weight=[one.weight for one in ours], sources=sources)
        table["kind"] = ["added" if one.added else one.kind.value for one in ours]
    if dictionary:
        own = {*dictionary.parts, *dictionary.names.values()}
        stands = [", ".join(_surfaces(pair, (right, wrong), dictionary)) for pair in zip(ours, theirs, strict=True)]
        is_own = [one.text in own and one.kind is not TokenKind.LETTERS for one in ours]
        table = table.assign(own=is_own, stands_as=stands)
    return table


def _in_order(of: BM25Explanation, table: pd.DataFrame) -> list[TermContribution]:
    terms = {(term.text, term.kind.value): term for term in of.terms}
    return [terms[key] for key in zip(table["term"], table["kind"], strict=True)]


def _surfaces(
    pair: tuple[TermContribution, ...], of: tuple[BM25Explanation, ...], dictionary: Dictionary
) -> Iterator[str]:
    """Yield the other words of the question and both passages that are read as the term: synonyms."""
    if pair[0].kind is TokenKind.LETTERS or pair[0].text not in dictionary.names.values():
        return
    question = [of[0].question[slice(*span)] for span in pair[0].question_spans]
    held = [one.passage.text[slice(*span)] for one, term in zip(of, pair, strict=True) for span in term.passage_spans]
    yield from (surface for surface in dict.fromkeys([*question, *held]) if name_of(surface) != pair[0].text)


def token_table(right: StaticExplanation, wrong: StaticExplanation) -> pd.DataFrame:
    """The same of the question's tokens and two cosines: columns `TOKENS`."""
    rows = []
    other = {(token.text, token.kind): token.value for token in wrong.question_tokens}
    for token in right.question_tokens:
        theirs = other[token.text, token.kind]
        rows.append((token.text, token.kind.value, token.known, token.value, theirs, token.value - theirs))
    return _by_difference(pd.DataFrame(rows, columns=list(TOKENS)))


def weighed_table(right: SparseExplanation, wrong: SparseExplanation) -> pd.DataFrame:
    """Set terms that a model weighs side by side, for two dot products: columns `WEIGHED`.

    `asked` is the weight in the question, `held_...` that in a passage, and `in_...` whether the term stands in it.
    `kind` is where it stands: "question", "passage" (in one of them, not in the question) or "expansion".
    """
    ours, theirs = ({term.text: term for term in one.terms} for one in (right, wrong))
    rows = []
    for text in dict.fromkeys([*ours, *theirs]):
        sides = [one.get(text) for one in (ours, theirs)]
        known = next(term for term in sides if term)
        stands = [bool(term and term.passage_spans) for term in sides]
        kind = "question" if known.question_spans else "passage" if any(stands) else "expansion"
        held = [term.passage if term else 0.0 for term in sides]
        values = [term.value if term else 0.0 for term in sides]
        right_cells, wrong_cells = zip(stands, held, values, strict=True)
        rows.append((text, kind, known.question, *right_cells, *wrong_cells, values[0] - values[1]))
    return _by_difference(pd.DataFrame(rows, columns=list(WEIGHED)))


def word_reason(table: pd.DataFrame, *, lost: bool) -> WordReason:
    """Draw from a `term_table` what a sentence needs. Pairs of letters count only where there are no words."""
    words = table[table["kind"] != TokenKind.LETTERS.value]
    words = words if len(words) else table
    ahead = -words["difference"] if lost else words["difference"]
    telling = words.iloc[int(ahead.to_numpy().argmax())] if len(words) and ahead.max() > 0 else None
    in_right, in_wrong = (int((words[column] > 0).sum()) for column in ("in_right", "in_wrong"))
    nowhere = tuple(words["term"][words["passages"] == 0])
    if telling is None:
        return WordReason(len(words), in_right, in_wrong, nowhere, "", 0, 0)
    counts = (int(telling["in_right"]), int(telling["in_wrong"]))
    return WordReason(len(words), in_right, in_wrong, nowhere, str(telling["term"]), *counts)


def telling_token(table: pd.DataFrame, *, lost: bool) -> str:
    """Return the token of a `token_table` that adds most to the lead, words before letters; empty if none does."""
    ahead = table.assign(lead=-table["difference"] if lost else table["difference"])
    ahead = ahead[ahead["lead"] > 0].sort_values("lead", ascending=False, kind="stable")
    words = ahead[ahead["kind"] != TokenKind.LETTERS.value]
    return str((words if len(words) else ahead)["term"].iloc[0]) if len(ahead) else ""


def _by_difference(table: pd.DataFrame) -> pd.DataFrame:
    order = table["difference"].abs().sort_values(ascending=False, kind="stable").index
    return table.loc[order].reset_index(drop=True)


@dataclass(frozen=True)
class PartContribution:
    """Rank and score of a passage in a component's list, and `value = weight * normalised`; None where it has none."""

    rank: int | None
    score: float | None
    normalised: float | None
    weight: float
    value: float


@dataclass(frozen=True)
class FusionExplanation:
    """What each retriever, by name, adds to the fused score of a passage; their values sum to it."""

    parts: Mapping[str, PartContribution]

    @property
    def score(self) -> float:
        return math.fsum(part.value for part in self.parts.values())

    @property
    def found(self) -> bool:
        """Whether a retriever that counts brought the passage; if none did, the hybrid does not find it."""
        return any(part.rank is not None and part.weight > 0 for part in self.parts.values())


@dataclass(frozen=True)
class RerankExplanation:
    """The ranks of a passage before and after reranking, None where it was not found, and its new score.

    `first` and `reranker` add up to the score; they are None past the depth of the reranker and past the new list.
    """

    rank_before: int | None
    rank_after: int | None
    score: float | None
    first: PartContribution | None = None
    reranker: PartContribution | None = None


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

    `lists` holds the rankings of each retriever by name, in the hybrid's order, at least `depth` deep: a list that was
    cut above has another range and deviation. `weights` None means 1 each; for `depths` see `Hybrid`.
    """
    parts = {}
    scored = depths if depths and fusion is not Fusion.RRF else [depth] * len(lists)
    for (name, rankings), weight, kept in zip(lists.items(), weights or [1.0] * len(lists), scored, strict=True):
        one = _of_question(rankings, question).first(kept)
        values, absent = normalised(one, fusion)
        rank, score = _standing(one, passage)
        value = float(values[0, rank - 1] if rank else absent[0])
        parts[name] = PartContribution(rank, score, value, weight, weight * value)
    return FusionExplanation(parts)


def rerank_contributions(
    before: Rankings, after: Rankings, question: int, passage: int, *, depth: int, weight: float
) -> RerankExplanation:
    """Explain the move of a passage from the first retriever's ranking to the reranked one, without the model.

    The new score is `weight * r + (1 - weight) * f` with f the first score brought to 0..1 over the `depth` passages
    read, so that r follows from both lists. `before` must be at least `depth` deep.
    """
    before, after = _of_question(before, question), _of_question(after, question)
    (rank, first_score), (new_rank, score) = (_standing(one, passage) for one in (before, after))
    if rank is None or rank > depth or score is None:
        return RerankExplanation(rank, new_rank, score)
    normal = float(min_max(before.first(depth).scores)[0, rank - 1])
    first_value = (1 - weight) * normal
    value = score - first_value if weight else 0.0
    first = PartContribution(rank, first_score, normal, 1 - weight, first_value)
    reranker = PartContribution(None, None, value / weight if weight else None, weight, value)
    return RerankExplanation(rank, new_rank, score, first, reranker)


def _of_question(rankings: Rankings, question: int) -> Rankings:
    return Rankings(rankings.indices[[question]], rankings.scores[[question]])


def _standing(rankings: Rankings, passage: int) -> tuple[int | None, float | None]:
    places = np.flatnonzero(rankings.indices[0] == passage)
    return (int(places[0]) + 1, float(rankings.scores[0, places[0]])) if len(places) else (None, None)
