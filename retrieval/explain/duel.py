"""Why one passage stands above another: the parts of both scores side by side, and the few facts a sentence needs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from retrieval.explain.bm25 import BM25Explanation, TermContribution
from retrieval.explain.encoders import SparseExplanation, StaticExplanation
from retrieval.rankings import Findings
from text.analysis import TokenKind
from text.dictionary import Dictionary, name_of

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
    """Return the `term_table` with what options of BM25 add to it; `called` is the name of a passage (a row).

    Fields: "title_..." and "text_..." count where a term stands. Feedback: "weight" in the question, "sources", and
    the kind "added". A dictionary: "own", whether the term is a word of it, and "stands_as", what is read as the term.
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
    """What stands in the question and in both passages where the term is read, and is another word: a synonym."""
    if pair[0].kind is TokenKind.LETTERS or pair[0].text not in dictionary.names.values():
        return
    question = [of[0].question[slice(*span)] for span in pair[0].question_spans]
    held = [one.passage.text[slice(*span)] for one, term in zip(of, pair, strict=True) for span in term.passage_spans]
    for surface in dict.fromkeys([*question, *held]):
        if name_of(surface) != pair[0].text:
            yield surface


def token_table(right: StaticExplanation, wrong: StaticExplanation) -> pd.DataFrame:
    """The same of the question's tokens and two cosines: columns `TOKENS`."""
    rows = []
    other = {(token.text, token.kind): token.value for token in wrong.question_tokens}
    for token in right.question_tokens:
        theirs = other[token.text, token.kind]
        rows.append((token.text, token.kind.value, token.known, token.value, theirs, token.value - theirs))
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
