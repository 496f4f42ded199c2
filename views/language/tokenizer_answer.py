"""What a comparison of tokenizers says in a sentence, and how far that goes."""

from collections.abc import Sequence

import streamlit as st

from language.comparison import KeptTokenizer
from views.language.tokenizers_view import TokenizersView
from views.names import set_name
from views.ui.words import plain, word

MOST_UNKNOWN = 0.05  # share of words with an unknown piece: above it, few pieces are no merit
_FEW = 30  # documents that are too few to rely on


def known_enough(one: KeptTokenizer) -> bool:
    """Whether a tokenizer knows so many words that its pieces may be counted against those of others."""
    return one.figures.unknown_words <= MOST_UNKNOWN


def draw(view: TokenizersView) -> None:
    """Draw who cuts words into the fewest pieces, who keeps to morphemes, and on how much text that was measured."""
    every = view.kept.tokenizers
    if not every:
        return
    able = [one for one in every if known_enough(one)]
    st.markdown(" ".join([_fewest(view, able or every), _nearest(view, able), _left_out(view, able)]))
    figures = every[0].figures
    counts = {"documents": f"{figures.documents:,}", "words": f"{figures.words:,}"}
    limits = [word("tokenizers.limits", **counts, data=plain(set_name(view.kept.corpus)))]
    limits += [word("tokenizers.few_documents")] if figures.documents < _FEW else []
    st.caption(" ".join(limits))


def _fewest(view: TokenizersView, of: Sequence[KeptTokenizer]) -> str:
    ranked = sorted(of, key=lambda one: one.figures.tokens_per_word)
    best, worst = ranked[0], ranked[-1]
    told = {"best": plain(view.name(best)), "tokens": f"{best.figures.tokens_per_word:.2f}"}
    if len(ranked) == 1:
        return word("tokenizers.answer_one", **told)
    others = {"worst": plain(view.name(worst)), "most": f"{worst.figures.tokens_per_word:.2f}"}
    if told["tokens"] == others["most"]:
        return word("tokenizers.answer_alike", tokens=told["tokens"], count=len(ranked))
    return word("tokenizers.answer", **told, **others, count=len(ranked))


def _nearest(view: TokenizersView, of: Sequence[KeptTokenizer]) -> str:
    judged = [(one.figures.f1, one) for one in of if one.figures.f1 is not None]
    if len({f"{f1:.2f}" for f1, _ in judged}) < 2:  # nobody keeps closer than another
        return ""
    f1, best = max(judged, key=lambda one: one[0])
    return word("tokenizers.answer_morphemes", best=plain(view.name(best)), f1=f"{f1:.2f}")


def _left_out(view: TokenizersView, able: Sequence[KeptTokenizer]) -> str:
    names = [plain(view.name(one)) for one in view.kept.tokenizers if one not in able]
    if not names:
        return ""
    key = "tokenizers.answer_unknown" if able else "tokenizers.answer_all_unknown"
    return word(key, names=", ".join(names), share=f"{MOST_UNKNOWN:.0%}")
