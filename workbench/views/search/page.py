"""Search: one question asked of several retrievers, a column for each, drawn as soon as it has answered; a table."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from mrc_workbench.data.questions.judgements import judged_passages, judgements_of
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import StoredSet
from mrc_workbench.data.texts import Script, script_of
from mrc_workbench.retrieval.comparison.first_stage import LateSpec, TermSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.comparison.store import ComparisonJob
from mrc_workbench.retrieval.rankings import DEPTH, Findings
from mrc_workbench.workbench.views.choices import Choices, choices_for, method_line, rounded_duration
from mrc_workbench.workbench.views.names import retriever_name, retriever_names
from mrc_workbench.workbench.views.navigation import draw_copy_link
from mrc_workbench.workbench.views.resources import retrieval
from mrc_workbench.workbench.views.resources.sets import chosen_set, question_set
from mrc_workbench.workbench.views.search.answer import SOON, Outcome, Search, SearchAnswer, draw_reasons, waits
from mrc_workbench.workbench.views.search.judging import draw_judged, draw_mark, draw_pool
from mrc_workbench.workbench.views.ui import passages, state, tables
from mrc_workbench.workbench.views.ui.job import once_asked
from mrc_workbench.workbench.views.ui.words import known, language, plain, search_failure_text, word


class Columns:
    """The containers of the columns: all heads in one row, so that the results below begin at one height."""

    def __init__(self, search: Search, answer: SearchAnswer) -> None:
        self._search, self._answer, self._every = search, answer, [*search.choices.specs]
        self._building = st.empty()  # says which retriever is being built
        st.html(passages.legend_html(truth=bool(answer.truth and answer.truth.answers)))
        with st.container(key="beside_search"):
            self._switch = st.empty()
            names = search.picked
            self._heads = {name: column.empty() for name, column in zip(names, st.columns(len(names)), strict=True)}
            self._bodies = {name: column.empty() for name, column in zip(names, st.columns(len(names)), strict=True)}

    def draw(self) -> None:
        """Draw the hits of each retriever as soon as it has answered."""
        search = self._search
        pending = [name for name in search.picked if any(spec.name in search.pending for spec in search.needed(name))]
        if pending:
            self._draw_switch()
        for name in pending:
            self._draw_head(name, "")
            text, wait = word("search.pending"), search.expected.get(name, 0.0)
            if wait > SOON:
                text = word("search.pending_time", time=rounded_duration(wait))
            self._bodies[name].caption(f":material/hourglass_empty: {text}")
        for name, outcome in search.outcomes(self._building):
            self._answer.outcomes[name] = outcome
            if name in search.picked:
                self._draw_outcome(name, outcome)
        self._draw_switch()

    def _draw_switch(self) -> None:
        found = [self._answer.found.get(name) for name in self._search.picked]
        ranks = [next(iter(passages.right_ranks(one, self._answer.right)), None) if one else None for one in found]
        self._switch.html(passages.switch_html(self._search.picked, self._every, ranks, "search"))

    def _draw_head(self, name: str, truth: str) -> None:
        spec = self._search.choices.specs[name]
        does = method_line(spec, self._search.choices).removeprefix(f"{retriever_name(name)}: ")
        with self._heads[name].container():
            st.html(passages.head_html(name, self._every, truth, does))
            score = score_word(spec)
            st.caption(word(score), help=word(f"{score}_help"))

    def _draw_outcome(self, name: str, outcome: Outcome) -> None:
        right = self._answer.right
        self._draw_head(
            name, passages.truth_line(outcome, right, DEPTH) if isinstance(outcome, Findings) and right else ""
        )
        with self._bodies[name].container():
            if isinstance(outcome, Exception):
                st.error(plain(search_failure_text(outcome)), icon=":material/error:")
            elif not outcome.rows:
                st.caption(f":material/search_off: {word('search.found_nothing')}")
            else:
                self._draw_hits(self._search.choices.specs[name])

    def _draw_hits(self, spec: Spec) -> None:
        answer = self._answer
        rows = tuple(answer.shown(spec.name))
        marks = retrieval.marked_passages(answer.data.key, answer.question, rows)
        known = answer.truth.rows if answer.truth else ()
        for row, texts in zip(rows, marks, strict=True):
            id_, key = answer.questions.passages.ids[row], f"{spec.name} {row}"
            with st.container(key=f"card_{key}", gap=None):
                st.html(
                    passages.hits_html(
                        [passages.hit(spec, answer.found, row, id_, texts, relevant=row in answer.right)]
                    )
                )
                if row not in known:
                    draw_mark(answer.questions, answer.question, row, key, is_right=row in answer.judged)


_KNOWN = "newest_searched_with"  # of the session: the newest training's retriever when columns were last drawn
_KS = ("5", "10", "20")
_EXAMPLES = 3
_LOOKED_AT = 200  # questions of a set that examples are chosen from
_BOX = "question_box"  # of the session


def draw() -> None:
    data = chosen_set()
    if st.query_params.get("pool"):
        passages.draw_style()
        draw_pool(data)
        return
    choices = choices_for(data)
    passages.draw_style()
    st.title(word("search.title"))
    examples, disputed = _examples(data, choices)
    with st.container(key="ask"):
        example, about = next(iter(examples), ""), word("search.question_help")
        look: dict[str, Any] = {"submit": word("search.search"), "icon": ":material/search:"}
        question = state.draw_question(_BOX, example, about, on_asked=_ask_the_box, **look)
    if examples:
        with st.container(key="asked_examples" if question else "examples"):
            state.draw_examples(_BOX, examples, word("search.examples_help") if disputed else None)
    expected = waits(data, choices)
    picked, k = _controls(data, choices, expected)
    stopped = st.session_state.pop("search_stopped", False)
    if not question:
        usual = "search.ask" if data.questions else "search.ask_alone"
        st.info(word("search.stopped" if stopped else usual), icon=":material/search:")
        draw_judged(data)
    elif not picked:
        st.info(word("search.pick_one"), icon=":material/info:")
    else:
        _put_into_address(picked)
        _results(Search(data, choices, picked, question, expected), k)


def _ask_the_box() -> None:
    state.ask(_BOX, st.session_state[_BOX].strip())
    st.session_state["try_failed_again"] = True


def _examples(data: StoredSet, choices: Choices) -> tuple[list[str], bool]:
    """Return some questions of the set, those of the page's language first; and whether a comparison disputes them."""
    disputed = _disputed(data, choices)
    questions = question_set(data.key).questions
    looked_at = disputed or [one.text for one in questions[:: max(1, len(questions) // _LOOKED_AT)]]
    korean = language() == "ko"
    of_the_page_first = sorted(looked_at, key=lambda text: (script_of([text]) is Script.KOREAN) != korean)
    return of_the_page_first[:_EXAMPLES], bool(disputed)


def _disputed(data: StoredSet, choices: Choices) -> list[str]:
    picked = [*choices.first_picked]
    built_in = [name for name in picked if name not in choices.trained and name not in choices.added]
    for names, part in ((picked, Part.TEST), (picked, Part.ALL), (built_in, Part.ALL), (built_in, Part.TEST)):
        experiment = choices.experiment(data, names, part)
        job = ComparisonJob.of(experiment, data.fingerprint)
        if job.done:
            opened = retrieval.open_comparison(data.key, job.folder)
            return opened.disputed(_LOOKED_AT) if opened else []
    return []


def _controls(data: StoredSet, choices: Choices, expected: Mapping[str, float]) -> tuple[list[str], int]:
    names = choices.searchable
    usual = _usual(choices, expected)
    _bring_back(choices, usual)
    called = retriever_names(choices.specs)
    left, right = st.columns([3, 1], vertical_alignment="bottom")

    def label(name: str) -> str:
        wait, chip = expected.get(name, 0.0), plain(called[name])
        return chip if wait <= SOON else word("search.chip_time", name=chip, time=rounded_duration(wait))

    look = {"format_func": label, "help": word("search.retrievers_help", most=passages.MOST), "wrap": True}
    key, title = f"columns_{data.key}_{len(names)}", word("compare.retrievers")
    picked = state.choose_several(left.pills, "columns", title, names, usual, key=key, **look)
    k = state.choose(right.segmented_control, "n", word("search.k"), _KS, "5", help=word("search.k_help"))
    if len(picked) > passages.MOST:
        shown = plain(", ".join(called[name] for name in picked[: passages.MOST]))
        st.caption(word("search.only_first", most=passages.MOST, names=shown))
    if picked and not state.is_assumed("columns") and (picked != usual or "columns" in st.query_params):
        state.remember("columns", "|".join(picked))
    return picked[: passages.MOST], int(k)


def _put_into_address(picked: Sequence[str]) -> None:
    """Have the address name the columns of a question, also the default ones: a training changes which these are."""
    if "columns" not in st.query_params or state.is_assumed("columns"):
        state.assume("columns", "|".join(picked))
        st.query_params["columns"] = "|".join(picked)


def _usual(choices: Choices, expected: Mapping[str, float]) -> list[str]:
    """Return the columns before anybody chooses: what answers soon, the newest training's retriever among them."""
    soon = [name for name in choices.searchable if expected.get(name, float("inf")) <= SOON]
    newest = [name for name in [_newest(choices)] if name in soon]
    usual = [name for name in choices.first_picked if name in soon and name not in newest]
    wanted = [*usual[: passages.MOST - len(newest)], *newest]
    return [name for name in soon if name in wanted] or choices.searchable[:1]


def _newest(choices: Choices) -> str:
    newest = next(reversed(choices.trained.values()), None)
    return next((name for name, plan in choices.trained.items() if plan is newest), "")


def _bring_back(choices: Choices, usual: Sequence[str]) -> None:
    """Put the columns chosen before into the address; what was trained since then stands among them."""
    known = st.session_state.get(_KNOWN)
    newest = st.session_state[_KNOWN] = _newest(choices)
    kept = st.session_state.get("kept_columns")
    if not kept or "columns" in st.query_params:
        return
    if newest and newest != known:
        kept = "|".join([*kept.split("|")[: passages.MOST - 1], newest])
    if kept.split("|") != [*usual]:
        st.query_params["columns"] = kept


def _results(search: Search, k: int) -> None:
    data, choices, question, picked = search.data, search.choices, search.question, list(search.picked)
    asked = question_set(data.key)
    ids = judged_passages(judgements_of(asked.corpus_fingerprint), question)
    judged = tuple(asked.row_of_passage[id_] for id_ in ids if id_ in asked.row_of_passage)
    answered = SearchAnswer(data, question, {}, retrieval.truth_in(data.key, question), k, judged)
    with st.container(horizontal=True, vertical_alignment="center"):
        with st.container():
            _what_is_known(answered)
        draw_copy_link()
    shown, notices = [choices.specs[name] for name in picked], st.container()
    Columns(search, answered).draw()
    with notices:
        if all(isinstance(found := answered.outcomes[name], Findings) and not found.rows for name in picked):
            st.info(word("search.nothing_at_all"), icon=":material/search_off:")
            return
        called = retriever_names(choices.specs)
        for part, names in answered.blind(shown).items():
            key = "search.blind_words" if isinstance(choices.specs[part], TermSpec) else "search.blind"
            text = word(key, part=plain(called[part]), names=plain(", ".join(called[name] for name in names)))
            st.info(text, icon=":material/visibility_off:")
    if answered.right:
        place = st.expander(word("why.reasons"), icon=":material/psychology_alt:", expanded=True)
        with place, st.spinner(word("why.reading")):
            told = [spec for spec in shown if spec.name in answered.found]
            draw_reasons(answered.asked, told, list(choices.specs))
    for spec in shown:
        if isinstance(spec, LateSpec) and spec.name in answered.found:
            draw_pieces(answered, spec, search.experiment)
    draw_table(answered, shown)
    draw_judged(data)


def _what_is_known(answer: SearchAnswer) -> None:
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
    found = {spec.name: answer.found[spec.name] for spec in specs if spec.name in answer.found}
    corpus = answer.questions.passages

    def label(row: int) -> str:
        named = " · ".join(filter(None, (corpus[row].title, corpus[row].id)))
        return f"✔ {named}" if row in answer.right else named

    table = pd.DataFrame({"rank": range(1, answer.k + 1)})
    columns = {"rank": tables.number("search.rank", width="small", pinned=True)}
    called = retriever_names(found)
    for spec in specs:
        if outcome := found.get(spec.name):
            passage, score, name = f"{spec.name} passage", f"{spec.name} score", called[spec.name]
            table[passage] = pd.Series([label(row) for row in outcome.rows[: answer.k]], dtype=object)
            table[score] = pd.Series(outcome.scores[: answer.k], dtype=float)
            columns[passage] = st.column_config.TextColumn(name)
            title, about = word("search.score_of", name=name), word(f"{score_word(spec)}_help")
            columns[score] = tables.figure(title, f"%.{spec.local.digits}f", about)
    with st.expander(word("search.as_table"), icon=":material/table:"):
        tables.draw(table, columns)
        tables.draw_csv("search.csv", lambda: _long_table(answer, found), "search.csv")


def score_word(spec: Spec) -> str:
    key = f"search.score_{spec.local.score_kind}"
    return key if known(key) else "search.score_other"


def _long_table(answer: SearchAnswer, found: dict[str, Findings]) -> pd.DataFrame:
    corpus, is_known = answer.questions.passages, bool(answer.truth or answer.judged)
    rows = []
    for name, outcome in found.items():
        for rank, row in enumerate(outcome.rows[: answer.k], start=1):
            passage, relevant = corpus[row], row in answer.right if is_known else None
            about = (passage.id, passage.title, outcome.scores[rank - 1], relevant)
            rows.append((answer.question, name, rank, *about))
    return pd.DataFrame(rows, columns=["question", "retriever", "rank", "passage_id", "title", "score", "relevant"])


@st.fragment
def draw_pieces(answer: SearchAnswer, spec: LateSpec, experiment: str) -> None:
    found, corpus = answer.found[spec.name], answer.questions.passages
    compared = found.rows[: spec.depth] if spec.first else found.rows  # below, another retriever's order stays
    rows = [row for row in answer.shown(spec.name) if row in compared]
    if not rows:
        return

    def label(row: int) -> str:
        return plain(" · ".join(filter(None, (str(found.rank_of(row)), corpus[row].title, corpus[row].id))))

    title = word("search.pieces", name=plain(retriever_name(spec.name)))
    with st.expander(title, icon=":material/join_inner:", expanded=True):
        st.caption(word("why.matches_help"))
        key = f"pieces {spec.name} {answer.question}"
        picked: int = st.selectbox(word("search.pieces_of"), rows, format_func=label, key=key)
        request = (answer.data.key, experiment, spec.model_dump_json(), answer.question, picked)
        explained = once_asked(spec.name, word("search.pieces_ask"), lambda: retrieval.explained_late(*request))
        if explained is None:
            return
        left, right = st.columns([3, 2])
        with left:
            st.html(passages.matches_html(explained, gold=picked in answer.right))
        with right:
            passages.draw_matches({"answered": explained})
