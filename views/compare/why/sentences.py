"""Where a model that reads words in context sees the question answered: its cosine with each sentence."""

import pandas as pd
import streamlit as st

from retrieval.comparison.first_stage import DenseSpec
from retrieval.explain.duel import Duel
from retrieval.explain.sentences import SentenceExplanation
from retrieval.explain.token_windows import WindowExplanation
from text.located import weighted_pieces
from views.compare.why import windows as compare_windows
from views.compare.why.questions import QuestionCase
from views.compare.why.terms import once_asked
from views.resources.explanations import explained_cosine, explained_sentences
from views.ui import tables
from views.ui.passages import weighed_html
from views.ui.words import word


def draw(case: QuestionCase, spec: DenseSpec, of: Duel) -> None:
    """Draw the button that loads the model and, once it was pressed, both passages."""
    st.caption(word("why.sentences_help"))
    key, question = case.view.data.key, case.question.text

    def tell() -> list[WindowExplanation | SentenceExplanation]:
        return [
            explained_cosine(key, spec.model_dump_json(), question, row)
            or explained_sentences(key, spec.model, spec.title, question, row)
            for row in (of.right, of.wrong or 0)
        ]

    found = once_asked(spec.name, word("why.sentences_ask"), tell)
    if found is None:
        return
    for place, one, side in zip(st.columns(2), found, ("right", "wrong"), strict=True):
        with place:
            st.markdown(word(f"why.{side}_cosine", score=f"{one.score:.3f}"))
            if isinstance(one, WindowExplanation):
                compare_windows.draw(one, gold=side == "right")
            else:
                _draw_one(one, gold=side == "right")


def _draw_one(one: SentenceExplanation, *, gold: bool) -> None:
    # the least similar is not shaded: cosines of sentences differ, and have no zero that means something
    least = min((sentence.cosine for sentence in one.sentences), default=0.0)
    weights = [(sentence.span, sentence.cosine - least) for sentence in one.sentences]
    pieces = weighted_pieces(one.passage.text, weights, 0, len(one.passage.text))
    st.html(weighed_html([], pieces, gold=gold))
    texts = [one.passage.text[slice(*sentence.span)] for sentence in one.sentences]
    table = pd.DataFrame({"sentence": texts, "cosine": [sentence.cosine for sentence in one.sentences]})
    columns = {"sentence": tables.text("why.sentence", width="large"), "cosine": tables.number("why.cosine", "%.3f")}
    st.dataframe(table, hide_index=True, column_config=columns)
