"""The language of a question set, the analyzer that suits it, and a warning about questions in another language."""

import streamlit as st

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.workbench.views.names import analyzer_words, language_name
from mrc_workbench.workbench.views.resources.sets import languages_of
from mrc_workbench.workbench.views.ui.words import plain, word


def draw_languages(questions: QuestionSet) -> None:
    languages = languages_of(questions)
    analyzer = plain(analyzer_words(languages.analyzer))
    explained = word("data_page.language_help")
    if languages.language:
        st.markdown(
            word("data_page.language", language=language_name(languages.language), analyzer=analyzer), help=explained
        )
    else:
        st.markdown(word("data_page.language_unclear", analyzer=analyzer), help=explained)
    if languages.foreign:
        names = ", ".join(f"{language_name(other)} {len(rows):,}" for other, rows in languages.foreign.items())
        counts = {"count": f"{languages.foreign_count:,}", "examined": f"{languages.examined:,}"}
        st.warning(word("data_page.foreign_questions", languages=names, **counts), icon=":material/translate:")
