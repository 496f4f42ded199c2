"""The Search page: a question, a column for each retriever, filled as soon as it answers, and a table."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from mrc_workbench.data.questions.judgements import find_right_passages, load_judgements
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.texts import Script, script_of
from mrc_workbench.retrieval.comparison.first_stage import LateSpec, TermSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.comparison.store import ComparisonJob
from mrc_workbench.retrieval.rankings import DEPTH, QueryHits
from mrc_workbench.workbench.views.choices import RetrieverChoices, choices_for, method_line
from mrc_workbench.workbench.views.names import retriever_name, retriever_names
from mrc_workbench.workbench.views.navigation import draw_copy_link
from mrc_workbench.workbench.views.resources import retrieval
from mrc_workbench.workbench.views.resources.sets import question_set, selected_set
from mrc_workbench.workbench.views.search.answer import (
    SOON_SECONDS,
    Outcome,
    QuestionSearch,
    SearchAnswer,
    draw_reasons,
    expected_waits,
)
from mrc_workbench.workbench.views.search.judging import draw_judged, draw_mark, draw_pool
from mrc_workbench.workbench.views.ui import passages, state, tables
from mrc_workbench.workbench.views.ui.job import compute_on_request
from mrc_workbench.workbench.views.ui.words import (
    has_text,
    language,
    plain,
    rounded_duration,
    search_failure_text,
    word,
)

_KNOWN = "newest_searched_with"  # session key: the newest trained retriever when columns were last drawn
_KS = ("5", "10", "20")
_EXAMPLES = 3
_EXAMPLE_POOL = 200  # questions from which examples are selected
_BOX = "question_box"  # session key


class ResultColumns:
    """The containers of the columns. All headers share a row, so that the results begin at the same height."""

    def __init__(self, search: QuestionSearch, answer: SearchAnswer) -> None:
        self._search = search
        self._answer = answer
        self._every = [*search.choices.specs]
        self._building = st.empty()  # shows which retriever is being built
        st.html(passages.legend_html(truth=bool(answer.truth and answer.truth.answers)))
        with st.container(key="beside_search"):
            self._switch = st.empty()
            names = search.selected
            self._headers = {name: column.empty() for name, column in zip(names, st.columns(len(names)), strict=True)}
            self._bodies = {name: column.empty() for name, column in zip(names, st.columns(len(names)), strict=True)}

    def draw(self) -> None:
        """Draw the hits of each retriever as soon as it has answered."""
        search = self._search
        needed = {name: {spec.name for spec in search.choices.needed([name])} for name in search.selected}
        pending = [name for name, names in needed.items() if not names.isdisjoint(search.pending)]
        if pending:
            self._draw_switch()
        for name in pending:
            self._draw_header(name, "")
            wait = search.expected.get(name, 0.0)
            is_slow = wait > SOON_SECONDS
            text = word("search.pending_time", time=rounded_duration(wait)) if is_slow else word("search.pending")
            self._bodies[name].caption(f":material/hourglass_empty: {text}")
        for name, outcome in search.outcomes(self._building):
            self._answer.outcomes[name] = outcome
            if name in search.selected:
                self._draw_outcome(name, outcome)
        self._draw_switch()

    def _draw_switch(self) -> None:
        findings = [self._answer.findings.get(name) for name in self._search.selected]
        right = self._answer.right
        ranks = [passages.first_answer_rank(result, right) if result else None for result in findings]
        self._switch.html(passages.switch_html(self._search.selected, self._every, ranks, "search"))

    def _draw_header(self, name: str, truth: str) -> None:
        spec = self._search.choices.specs[name]
        description = method_line(spec, self._search.choices).removeprefix(f"{retriever_name(name)}: ")
        with self._headers[name].container():
            st.html(passages.head_html(name, self._every, truth, description))
            score = score_word(spec)
            st.caption(word(score), help=word(f"{score}_help"))

    def _draw_outcome(self, name: str, outcome: Outcome) -> None:
        right = self._answer.right
        truth = passages.answer_rank_text(outcome, right, DEPTH) if isinstance(outcome, QueryHits) and right else ""
        self._draw_header(name, truth)
        with self._bodies[name].container():
            if isinstance(outcome, Exception):
                st.error(plain(search_failure_text(outcome)), icon=":material/error:")
            elif not outcome.rows:
                st.caption(f":material/search_off: {word('search.no_results')}")
            else:
                self._draw_hits(self._search.choices.specs[name])

    def _draw_hits(self, spec: Spec) -> None:
        answer = self._answer
        rows = tuple(answer.displayed_rows(spec.name))
        marks = retrieval.marked_passages(answer.data.key, answer.question, rows)
        known = answer.truth.rows if answer.truth else ()
        for row, texts in zip(rows, marks, strict=True):
            id_ = answer.questions.passages.ids[row]
            key = f"{spec.name} {row}"
            card = passages.hit_card(spec, answer.findings, row, id_, texts, relevant=row in answer.right)
            with st.container(key=f"card_{key}", gap=None):
                st.html(passages.hits_html([card]))
                if row not in known:
                    draw_mark(answer.questions, answer.question, row, key, is_right=row in answer.judged)


def draw() -> None:
    data = selected_set()
    passages.draw_style()
    if st.query_params.get("pool"):
        draw_pool(data)
        return
    choices = choices_for(data)
    st.title(word("search.title"))
    examples, disputed = _examples(data, choices)
    with st.container(key="ask"):
        example = next(iter(examples), "")
        about = word("search.question_help")
        kwargs: dict[str, Any] = {"submit": word("search.search"), "icon": ":material/search:"}
        question = state.draw_question(_BOX, example, about, on_submit=_submit_question, **kwargs)
    if examples:
        with st.container(key="asked_examples" if question else "examples"):
            state.draw_examples(_BOX, examples, word("search.examples_help") if disputed else None)
    expected = expected_waits(data, choices)
    selected, k = _controls(data, choices, expected)
    stopped = st.session_state.pop("search_stopped", False)
    if not question:
        key = "search.ask" if data.questions else "search.ask_without_examples"
        st.info(word("search.stopped" if stopped else key), icon=":material/search:")
        draw_judged(data)
    elif not selected:
        st.info(word("search.select_retriever"), icon=":material/info:")
    else:
        _put_into_address(selected)
        _draw_results(QuestionSearch(data, choices, selected, question, expected), k)


def _submit_question() -> None:
    state.ask(_BOX, st.session_state[_BOX].strip())
    st.session_state["try_failed_again"] = True


def _examples(data: StoredSet, choices: RetrieverChoices) -> tuple[list[str], bool]:
    """Return example questions, first in the language of the page, and whether retrievers disagree on them."""
    disputed = _disputed(data, choices)
    questions = question_set(data.key).questions
    texts = disputed or [question.text for question in questions[:: max(1, len(questions) // _EXAMPLE_POOL)]]
    is_korean = language() == "ko"
    texts = sorted(texts, key=lambda text: (script_of([text]) is Script.KOREAN) != is_korean)
    return texts[:_EXAMPLES], bool(disputed)


def _disputed(data: StoredSet, choices: RetrieverChoices) -> list[str]:
    selected = [*choices.default_names]
    built_in = [name for name in selected if name not in choices.trained and name not in choices.added]
    for names, part in ((selected, Part.TEST), (selected, Part.ALL), (built_in, Part.ALL), (built_in, Part.TEST)):
        experiment = choices.experiment(data, names, part)
        job = ComparisonJob.of(experiment, data.fingerprint)
        if job.done:
            if opened := retrieval.open_comparison(data.key, job.folder):
                rows = opened.disputed_rows(tuple(opened.comparison.rankings), _EXAMPLE_POOL)
                return [opened.question_set.questions[row].text for row in rows]
            return []
    return []


def _controls(data: StoredSet, choices: RetrieverChoices, expected: Mapping[str, float]) -> tuple[list[str], int]:
    names = choices.searchable
    default = _default_columns(choices, expected)
    _restore_columns(choices, default)
    display_names = retriever_names(choices.specs)
    left, right = st.columns([3, 1], vertical_alignment="bottom")

    def label(name: str) -> str:
        wait = expected.get(name, 0.0)
        chip = plain(display_names[name])
        return chip if wait <= SOON_SECONDS else word("search.chip_time", name=chip, time=rounded_duration(wait))

    kwargs: dict[str, Any] = {"help": word("search.retrievers_help", most=passages.MOST), "wrap": True}
    kwargs |= {"format_func": label, "key": f"columns_{data.key}_{len(names)}"}
    selected = state.choose_several(left.pills, "columns", word("compare.retrievers"), names, default, **kwargs)
    k = state.choose(right.segmented_control, "n", word("search.k"), _KS, "5", help=word("search.k_help"))
    if len(selected) > passages.MOST:
        displayed_names = plain(", ".join(display_names[name] for name in selected[: passages.MOST]))
        st.caption(word("search.only_first", most=passages.MOST, names=displayed_names))
    if selected and not state.is_assumed("columns") and (selected != default or "columns" in st.query_params):
        state.remember("columns", "|".join(selected))
    return selected[: passages.MOST], int(k)


def _put_into_address(selected: Sequence[str]) -> None:
    """Put the columns into the address, even the default ones: a training changes the defaults."""
    if "columns" not in st.query_params or state.is_assumed("columns"):
        state.assume("columns", "|".join(selected))
        st.query_params["columns"] = "|".join(selected)


def _default_columns(choices: RetrieverChoices, expected: Mapping[str, float]) -> list[str]:
    """Return the default columns: fast retrievers, with the newest trained one."""
    fast = [name for name in choices.searchable if expected.get(name, float("inf")) <= SOON_SECONDS]
    newest = [name for name in [_newest(choices)] if name in fast]
    default = [name for name in choices.default_names if name in fast and name not in newest]
    selected = [*default[: passages.MOST - len(newest)], *newest]
    return [name for name in fast if name in selected] or choices.searchable[:1]


def _newest(choices: RetrieverChoices) -> str:
    newest = next(reversed(choices.trained.values()), None)
    return next((name for name, plan in choices.trained.items() if plan is newest), "")


def _restore_columns(choices: RetrieverChoices, default: Sequence[str]) -> None:
    """Put the earlier columns into the address, with a retriever that was trained since then."""
    known = st.session_state.get(_KNOWN)
    newest = st.session_state[_KNOWN] = _newest(choices)
    stored = st.session_state.get("stored_columns")
    if not stored or "columns" in st.query_params:
        return
    if newest and newest != known:
        stored = "|".join([*stored.split("|")[: passages.MOST - 1], newest])
    if stored.split("|") != [*default]:
        st.query_params["columns"] = stored


def _draw_results(search: QuestionSearch, k: int) -> None:
    data = search.data
    choices = search.choices
    question = search.question
    selected = list(search.selected)
    dataset_questions = question_set(data.key)
    ids = find_right_passages(load_judgements(dataset_questions.corpus_fingerprint), question)
    judged = tuple(dataset_questions.row_of_passage[id_] for id_ in ids if id_ in dataset_questions.row_of_passage)
    answered = SearchAnswer(data, question, {}, retrieval.truth_in(data.key, question), k, judged)
    with st.container(horizontal=True, vertical_alignment="center"):
        with st.container():
            _draw_known_answers(answered)
        draw_copy_link()
    specs = [choices.specs[name] for name in selected]
    notices = st.container()
    ResultColumns(search, answered).draw()
    with notices:
        outcomes = [answered.outcomes[name] for name in selected]
        if all(isinstance(outcome, QueryHits) and not outcome.rows for outcome in outcomes):
            st.info(word("search.nothing_at_all"), icon=":material/search_off:")
            return
        display_names = retriever_names(choices.specs)
        for part, names in answered.blind(specs).items():
            key = "search.blind_words" if isinstance(choices.specs[part], TermSpec) else "search.blind"
            listed = plain(", ".join(display_names[name] for name in names))
            st.info(word(key, part=plain(display_names[part]), names=listed), icon=":material/visibility_off:")
    answered_specs = [spec for spec in specs if spec.name in answered.findings]
    if answered.right:
        expander = st.expander(word("why.reasons"), icon=":material/psychology_alt:", expanded=True)
        with expander, st.spinner(word("why.reading")):
            draw_reasons(answered.results, answered_specs, list(choices.specs))
    for spec in answered_specs:
        if isinstance(spec, LateSpec):
            draw_token_matches(answered, spec, search.experiment)
    draw_table(answered, specs)
    draw_judged(data)


def _draw_known_answers(answer: SearchAnswer) -> None:
    if answer.judged:
        st.markdown(word("judging.known", passages=len(answer.judged)))
    if answer.truth is None and not answer.judged:
        st.caption(word("search.truth_unknown" if answer.questions.questions else "search.truth_of_none"))
    elif answer.truth is not None and not answer.truth.rows:
        st.caption(word("search.truth_none"))
    elif answer.truth is not None:
        answers = plain(", ".join(answer.truth.answers) or "–")
        st.markdown(word("search.truth", answers=answers, passages=len(answer.truth.rows)))


def draw_table(answer: SearchAnswer, specs: Sequence[Spec]) -> None:
    findings = {spec.name: answer.findings[spec.name] for spec in specs if spec.name in answer.findings}
    corpus = answer.questions.passages

    def label(row: int) -> str:
        named = " · ".join(filter(None, (corpus[row].title, corpus[row].id)))
        return f"✔ {named}" if row in answer.right else named

    table = pd.DataFrame({"rank": range(1, answer.k + 1)})
    columns = {"rank": tables.number("search.rank", width="small", pinned=True)}
    display_names = retriever_names(findings)
    for spec in specs:
        if outcome := findings.get(spec.name):
            passage = f"{spec.name} passage"
            score = f"{spec.name} score"
            name = display_names[spec.name]
            table[passage] = pd.Series([label(row) for row in outcome.rows[: answer.k]], dtype=object)
            table[score] = pd.Series(outcome.scores[: answer.k], dtype=float)
            columns[passage] = st.column_config.TextColumn(name)
            form = f"%.{spec.local_spec.digits}f"
            about = word(f"{score_word(spec)}_help")
            columns[score] = tables.labelled_number(word("search.score_of", name=name), form, about)
    with st.expander(word("search.as_table"), icon=":material/table:"):
        tables.draw(table, columns)
        tables.draw_csv("search.csv", lambda: _long_table(answer, findings), "search.csv")


def score_word(spec: Spec) -> str:
    key = f"search.score_{spec.local_spec.score_kind}"
    return key if has_text(key) else "search.score_other"


def _long_table(answer: SearchAnswer, findings: dict[str, QueryHits]) -> pd.DataFrame:
    corpus = answer.questions.passages
    is_known = bool(answer.truth or answer.judged)
    rows = []
    for name, outcome in findings.items():
        hits = zip(outcome.rows[: answer.k], outcome.scores, strict=False)
        for rank, (row, score) in enumerate(hits, start=1):
            relevant = row in answer.right if is_known else None
            rows.append((answer.question, name, rank, corpus[row].id, corpus[row].title, score, relevant))
    return pd.DataFrame(rows, columns=["question", "retriever", "rank", "passage_id", "title", "score", "relevant"])


@st.fragment
def draw_token_matches(answer: SearchAnswer, spec: LateSpec, experiment: str) -> None:
    findings = answer.findings[spec.name]
    corpus = answer.questions.passages
    depth = spec.rerank_top_k if spec.first_stage else len(findings.rows)  # lower ranks keep the first stage's order
    compared = findings.rows[:depth]
    rows = [row for row in answer.displayed_rows(spec.name) if row in compared]
    if not rows:
        return

    def label(row: int) -> str:
        return plain(" · ".join(filter(None, (str(findings.rank_of(row)), corpus[row].title, corpus[row].id))))

    title = word("search.pieces", name=plain(retriever_name(spec.name)))
    with st.expander(title, icon=":material/join_inner:", expanded=True):
        st.caption(word("why.matches_help"))
        kwargs: dict[str, Any] = {"format_func": label, "key": f"pieces {spec.name} {answer.question}"}
        selected: int = st.selectbox(word("search.pieces_of"), rows, **kwargs)
        request = (answer.data.key, experiment, spec, answer.question, selected)
        explained = compute_on_request(spec.name, word("search.pieces_ask"), lambda: retrieval.explain_late(*request))
        if explained is None:
            return
        left, right = st.columns([3, 2])
        with left:
            st.html(passages.matches_html(explained, gold=selected in answer.right))
        with right:
            passages.draw_matches({"answered": explained})
