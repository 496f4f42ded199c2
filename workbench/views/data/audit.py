"""The tabs for a question set: counts, languages and doubtful questions; distributions and split; and its passages."""

import math
from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from mrc_workbench.data.questions import (
    MIN_QUESTIONS_FOR_OVERLAP,
    OVERLAP_WIDTH,
    Audit,
    group_questions_by_passage,
    histogram,
    kinds_table,
    overlap_level,
)
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split import PARTS, Split, SplitMethod, parts_table, split_table
from mrc_workbench.data.text.marking import merge_spans
from mrc_workbench.workbench.views.names import (
    analyzer_words,
    kind_words,
    language_name,
    split_text,
    warn_if_parts_are_small,
)
from mrc_workbench.workbench.views.resources.sets import content_notes_of, languages_of, matching_passages
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.charts import distribution, draw_chart
from mrc_workbench.workbench.views.ui.state import PAGE_OF_LIST
from mrc_workbench.workbench.views.ui.words import plain, problem_text, word

MAX_ROWS = 1000  # of a table
_COUNT_WIDTH = 160  # pixels: a telephone has two in a row
_EXPLAINED = ("article_count", "overlap")  # counts with a help text
_PASSAGES_PER_PAGE = 5
_MAX_CHARACTERS = 5000
_MAX_QUESTIONS = 30
# translucent amber and an underline: readable on light and dark, and without colour
_MARK = "background: rgba(255, 176, 0, 0.35); color: inherit; border-bottom: 2px solid #E69F00; border-radius: 2px"
_TEXT = "white-space: pre-wrap; overflow-wrap: anywhere; line-height: 1.7"


def draw(questions: QuestionSet, audit: Audit, parts: Split) -> None:
    _draw_counts(audit)
    _draw_languages(questions)
    if questions.questions:
        overlap = audit.overlap
        values = {
            "mean": f"{overlap.mean * 100:.0f}",
            "chance": "–" if math.isnan(overlap.by_chance) else f"{overlap.by_chance * 100:.0f}",
            "questions": f"{overlap.measured:,}",
            "least": f"{MIN_QUESTIONS_FOR_OVERLAP}",
            "unit": word(f"data_page.unit_{overlap.unit}"),
        }
        st.markdown(word(f"data_page.overlap_{overlap_level(overlap)}", **values))
    _draw_doubtful(questions, audit)
    with st.spinner(word("data_page.checking_texts"), show_time=True):
        notes = content_notes_of(questions, parts)
    if notes:
        lines = [word("data_page.content_notes"), "", *(f"- {plain(problem_text(note))}" for note in notes)]
        st.info("\n".join(lines), icon=":material/info:")


def _draw_languages(questions: QuestionSet) -> None:
    languages = languages_of(questions)
    values = {"analyzer": plain(analyzer_words(languages.analyzer))}
    key = "data_page.language_unclear"
    if languages.language:
        key = "data_page.language"
        values["language"] = language_name(languages.language)
    st.markdown(word(key, **values), help=word("data_page.language_help"))
    if languages.foreign:
        names = ", ".join(f"{language_name(other)} {len(rows):,}" for other, rows in languages.foreign.items())
        counts = {"count": f"{sum(map(len, languages.foreign.values())):,}", "examined": f"{languages.examined:,}"}
        st.warning(word("data_page.foreign_questions", languages=names, **counts), icon=":material/translate:")


def draw_distributions(questions: QuestionSet, audit: Audit) -> None:
    table = histogram(audit.overlap.fractions, OVERLAP_WIDTH)
    if questions.questions and len(table):
        st.markdown(f"**{word('data_page.overlap_title')}**")
        median = float(np.nanmedian(audit.overlap.fractions))
        _draw_histogram(table, "overlap_axis", "questions_axis", median, percent=True)
    lengths = {"passages": audit.passage_lengths, "questions": audit.question_lengths}
    draw_lengths({name: values for name, values in lengths.items() if len(values)})
    if audit.kinds:
        st.markdown(f"**{word('data_page.kinds')}**")
        columns = {
            "kind": tables.text("column.kind", ""),
            "count": tables.number("data_page.question_count", "localized"),
            "share": tables.number("data_page.kind_share", "percent"),
            "overlap": tables.number("data_page.overlap", "percent"),
        }
        kinds = kinds_table(questions, audit)
        st.dataframe(kinds.assign(kind=kinds["kind"].map(kind_words)), hide_index=True, column_config=columns)


def draw_split(questions: QuestionSet, split: Split) -> None:
    st.subheader(word("data_page.split"), anchor=False)
    if split.method is SplitMethod.GROUPED:
        options = split.options
        shares = {"train": 1 - options.validation - options.test}
        shares |= {"validation": options.validation, "test": options.test}
        about = "data_page.split_about" if split.by_article else "data_page.split_about_passages"
        percentages = {part: f"{share:.0%}" for part, share in shares.items()}
        st.markdown(word(about, **percentages, seed=options.seed))
    else:
        st.markdown(split_text(split))
    table = parts_table(split)
    if not table["questions"].all():
        small = "data_page.split_too_small" if split.by_article else "data_page.split_too_small_passages"
        st.warning(word(small), icon=":material/warning:")
    warn_if_parts_are_small(split, [part for part in PARTS if len(split.rows[part])])
    table["part"] = [word(f"part.{part}") for part in table["part"]]
    groups, share = ("groups", "share") if split.by_article else ("split_passages", "split_passages_share")
    columns = {
        "part": tables.text("data_page.part"),
        "groups": tables.number(f"data_page.{groups}", "localized"),
        "share": tables.number(f"data_page.{share}", "percent"),
        "questions": tables.number("data_page.question_count", "localized"),
    }
    st.dataframe(table, hide_index=True, column_config=columns)
    tables.draw_csv("data_page.download_split", lambda: split_table(questions, split), f"{questions.name}_split.csv")


def _draw_counts(audit: Audit) -> None:
    counts = {
        "passage_count": f"{audit.passage_count:,}",
        "question_count": f"{audit.question_count:,}",
        "article_count": f"{audit.article_count:,}" if audit.article_count else "–",
        "overlap": "–" if math.isnan(audit.overlap.mean) else f"{audit.overlap.mean:.0%}",
    }
    with st.container(horizontal=True):
        for name, value in counts.items():
            explained = word(f"data_page.{name}_help") if name in _EXPLAINED else None
            st.metric(word(f"data_page.{name}"), value, help=explained, border=True, width=_COUNT_WIDTH)
    if not audit.question_count:
        return
    doubtful = {
        "passages_without_question": audit.passages_without_question,
        "unanswerable": audit.unanswerable_count,
        "duplicates": sum(map(len, audit.duplicate_questions.values())),
        "answers_not_found": len(audit.missing_answer_ids),
    }
    text = " · ".join(f"{word(f'data_page.{name}')} {count:,}" for name, count in doubtful.items())
    explained = "\n".join(f"- **{word(f'data_page.{name}')}**: {word(f'data_page.{name}_help')}" for name in doubtful)
    st.caption(text, help=explained)


def _draw_doubtful(questions: QuestionSet, audit: Audit) -> None:
    by_id = {question.id: question for question in questions.questions}
    lists = {
        "unanswerable": [question for question in questions.questions if not question.relevant],
        "duplicates": [by_id[id_] for ids in audit.duplicate_questions.values() for id_ in ids],
        "answers_not_found": [by_id[id_] for id_ in audit.missing_answer_ids],
    }
    for name, doubtful in lists.items():
        if not doubtful:
            continue
        with st.expander(word(f"data_page.see_{name}", count=f"{len(doubtful):,}")):
            if len(doubtful) > MAX_ROWS:
                st.caption(word("data_page.first_rows", count=f"{MAX_ROWS:,}"))
            rows = [(entry.id, entry.text, " | ".join(entry.answers)) for entry in doubtful[:MAX_ROWS]]
            columns = {
                "id": tables.text("column.id", ""),
                "question": tables.text("column.question", "", width="large"),
                "answers": tables.text("column.answers", ""),
            }
            tables.draw(pd.DataFrame(rows, columns=[*columns]), columns)


def draw_lengths(lengths: Mapping[str, np.ndarray]) -> None:
    for column, (name, values) in zip(st.columns(len(lengths)), lengths.items(), strict=True):
        with column:
            st.markdown(f"**{word(f'data_page.lengths_{name}')}**")
            spread = {"least": f"{values.min():,}", "median": f"{np.median(values):,.0f}", "most": f"{values.max():,}"}
            st.caption(word("data_page.lengths_spread", **spread))
            _draw_histogram(histogram(values), "characters", f"{name}_axis", float(np.median(values)))


def _draw_histogram(table: pd.DataFrame, x: str, y: str, median: float, *, percent: bool = False) -> None:
    label = word("data_page.median", median=f"{median:.0%}" if percent else f"{median:,.0f}")
    titles: dict[str, Any] = {"x": word(f"data_page.{x}"), "y": word(f"data_page.{y}")}
    draw_chart(distribution, table, **titles, median=median, label=label, percent=percent)
    draw_ranges(table, "percent" if percent else "localized")


def draw_ranges(table: pd.DataFrame, form: str) -> None:
    with st.expander(word("compare.as_table")):
        columns = {end: tables.number(f"data_page.{end}", form) for end in ("from", "to")}
        columns["count"] = tables.number("data_page.count", "localized")
        st.dataframe(table, hide_index=True, column_config=columns)


def draw_passages(questions: QuestionSet, key: str) -> None:
    kwargs: dict[str, Any] = {"placeholder": word("data_page.filter_placeholder"), "bind": "query-params"}
    pattern = st.text_input(word("data_page.filter"), key="find", type="search", max_chars=200, **kwargs).strip()
    rows = matching_passages(questions, pattern) if pattern else np.arange(len(questions.passages))
    if not len(rows):
        st.info(word("data_page.none_found"), icon=":material/search_off:")
        return
    pages = math.ceil(len(rows) / _PASSAGES_PER_PAGE)
    st.caption(word("data_page.found", count=f"{len(rows):,}", all=f"{len(questions.passages):,}"))
    container = st.container()
    page = _pick_page(pages, f"{key} {pattern}")
    displayed_rows = rows[(page - 1) * _PASSAGES_PER_PAGE : page * _PASSAGES_PER_PAGE].tolist()
    questions_by_passage = group_questions_by_passage(questions, displayed_rows)
    with container:
        for row in displayed_rows:
            _draw_passage(questions.passages[row], questions_by_passage[row])


def _pick_page(pages: int, listed: str) -> int:
    """Draw the pagination. The address determines the page of the first list in a session."""
    address_page = "" if "passages_listed" in st.session_state else st.query_params.get(PAGE_OF_LIST, "")
    st.session_state["passages_listed"] = True
    first = int(address_page) if address_page.isdecimal() and 1 <= int(address_page) <= pages else 1
    page = st.pagination(pages, default=first, key=f"{PAGE_OF_LIST} {listed}", persist_state="session")
    if page > 1 or PAGE_OF_LIST in st.query_params:
        st.query_params[PAGE_OF_LIST] = str(page)
    return page


def _draw_passage(passage: Passage, passage_questions: list[Question]) -> None:
    with st.container(border=True):
        text, questions = st.columns([3, 2])
        with text:
            st.markdown(f"**{plain(passage.title or passage.id)}**")
            st.html(_marked(passage.text, [answer for question in passage_questions for answer in question.answers]))
        with questions:
            st.markdown(f"**{word('data_page.asked', count=f'{len(passage_questions):,}')}**")
            items = []
            for question in passage_questions[:_MAX_QUESTIONS]:
                answers = " | ".join(question.answers)
                answer = f'<br><small>→ <mark style="{_MARK}">{escape(answers)}</mark></small>' if answers else ""
                items.append(f'<li style="margin-bottom: 0.4rem">{escape(question.text)}{answer}</li>')
            if (more := len(passage_questions) - _MAX_QUESTIONS) > 0:
                items.append(f"<li>{escape(word('data_page.more_questions', count=more))}</li>")
            listed = f'<ol style="{_TEXT}; white-space: normal; padding-left: 1.5rem">{"".join(items)}</ol>'
            st.html(listed if passage_questions else f"<p>{escape(word('data_page.nothing_asked'))}</p>")


def _marked(text: str, answers: list[str]) -> str:
    excerpt = text[:_MAX_CHARACTERS]
    parts = []
    end = 0
    spans = ((excerpt.find(answer), len(answer)) for answer in answers if answer)
    for start, stop in merge_spans((start, start + length) for start, length in spans if start >= 0):
        parts += [escape(excerpt[end:start]), f'<mark style="{_MARK}">{escape(excerpt[start:stop])}</mark>']
        end = stop
    parts.append(escape(excerpt[end:]))
    if len(text) > len(excerpt):
        parts.append(f" … <em>{escape(word('data_page.more_characters', count=f'{len(text) - len(excerpt):,}'))}</em>")
    return f'<div style="{_TEXT}">{"".join(parts)}</div>'
