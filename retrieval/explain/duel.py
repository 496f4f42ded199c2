"""Why one passage stands above another: the parts of both scores side by side, and the few facts a sentence needs."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from retrieval.explain.bm25 import BM25Explanation
from retrieval.explain.encoders import SparseExplanation, StaticExplanation
from retrieval.rankings import Findings
from text.analysis import TokenKind

TERMS = ("term", "kind", "in_question", "passages", "idf", "in_right", "right", "in_wrong", "wrong", "difference")
WEIGHED = (
    *("term", "kind", "asked", "in_right", "held_right", "right"),
    *("in_wrong", "held_wrong", "wrong", "difference"),
)
TOKENS = ("term", "kind", "known", "right", "wrong", "difference")


@dataclass(frozen=True)
class Duel:
    """The question's own passage (`right`) that a retriever ranks best, and the best ranked that is not relevant.

    Rows of the corpus; ranks are None where the ranking does not hold the passage, `wrong` is None where nothing wrong
    was found.
    """

    right: int
    right_rank: int | None
    wrong: int | None
    wrong_rank: int | None

    @property
    def lost(self) -> bool:
        """Whether the wrong passage stands above the right one."""
        return self.wrong_rank is not None and (self.right_rank is None or self.wrong_rank < self.right_rank)


@dataclass(frozen=True)
class WordReason:
    """What BM25 saw: of how many of the question's words the right passage and the wrong one hold some.

    `nowhere` are words that no passage holds. `telling` is the word that adds most to the lead of whoever is ahead,
    empty where none does, with its counts in both passages.
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
    """Set the terms of two explanations of one question side by side: columns `TERMS`, the largest differences first.

    `in_...` are counts, `passages` the document frequency; `right` and `wrong` sum to the two scores.
    """
    other = {(term.text, term.kind): term for term in wrong.terms}
    rows = [
        (
            term.text,
            term.kind.value,
            term.in_question,
            term.passages,
            term.idf,
            term.in_passage,
            term.value,
            other[term.text, term.kind].in_passage,
            other[term.text, term.kind].value,
            term.value - other[term.text, term.kind].value,
        )
        for term in right.terms
    ]
    return _by_difference(pd.DataFrame(rows, columns=list(TERMS)))


def token_table(right: StaticExplanation, wrong: StaticExplanation) -> pd.DataFrame:
    """The same of the question's tokens and two cosines: columns `TOKENS`."""
    other = {(token.text, token.kind): token.value for token in wrong.question_tokens}
    rows = [
        (
            token.text,
            token.kind.value,
            token.known,
            token.value,
            other[token.text, token.kind],
            token.value - other[token.text, token.kind],
        )
        for token in right.question_tokens
    ]
    return _by_difference(pd.DataFrame(rows, columns=list(TOKENS)))


def weighed_table(right: SparseExplanation, wrong: SparseExplanation) -> pd.DataFrame:
    """The same of terms that a model weighs and two dot products: columns `WEIGHED`.

    `asked` is the weight in the question, `held_...` that in a passage, and `in_...` whether the term stands in it.
    `kind` tells where it stands: "question", "passage" (in one of them, not in the question) or "expansion".
    """
    ours, theirs = ({term.text: term for term in one.terms} for one in (right, wrong))
    rows = []
    for text in dict.fromkeys([*ours, *theirs]):
        sides = [one.get(text) for one in (ours, theirs)]
        known = next(term for term in sides if term)
        stands = [bool(term and term.passage_spans) for term in sides]
        kind = "question" if known.question_spans else "passage" if any(stands) else "expansion"
        held, values = (
            [term.passage if term else 0.0 for term in sides],
            [term.value if term else 0.0 for term in sides],
        )
        right_cells, wrong_cells = zip(stands, held, values, strict=True)
        rows.append((text, kind, known.question, *right_cells, *wrong_cells, values[0] - values[1]))
    return _by_difference(pd.DataFrame(rows, columns=list(WEIGHED)))


def word_reason(table: pd.DataFrame, *, lost: bool) -> WordReason:
    """Draw from a `term_table` what a sentence needs. Pairs of letters count only where there are no words."""
    words = table[table["kind"] != TokenKind.LETTERS.value]
    words = words if len(words) else table
    ahead = -words["difference"] if lost else words["difference"]
    telling = words.iloc[int(ahead.to_numpy().argmax())] if len(words) and ahead.max() > 0 else None
    return WordReason(
        asked=len(words),
        in_right=int((words["in_right"] > 0).sum()),
        in_wrong=int((words["in_wrong"] > 0).sum()),
        nowhere=tuple(words["term"][words["passages"] == 0]),
        telling="" if telling is None else str(telling["term"]),
        telling_in_right=0 if telling is None else int(telling["in_right"]),
        telling_in_wrong=0 if telling is None else int(telling["in_wrong"]),
    )


def telling_token(table: pd.DataFrame, *, lost: bool) -> str:
    """Return the token of a `token_table` that adds most to the lead of whoever is ahead; empty where none does.

    A pair of letters is named only where no word speaks for them.
    """
    ahead = table.assign(lead=-table["difference"] if lost else table["difference"])
    ahead = ahead[ahead["lead"] > 0].sort_values("lead", ascending=False, kind="stable")
    words = ahead[ahead["kind"] != TokenKind.LETTERS.value]
    return str((words if len(words) else ahead)["term"].iloc[0]) if len(ahead) else ""


def _by_difference(table: pd.DataFrame) -> pd.DataFrame:
    order = table["difference"].abs().sort_values(ascending=False, kind="stable").index
    return table.loc[order].reset_index(drop=True)
