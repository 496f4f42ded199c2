"""A question asked of each retriever: their findings side by side, as a table, and piece by piece."""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

from data.records import QuestionSet
from data.split import Part
from data.store import StoredSet
from retrieval.comparison.compare import blind_parts
from retrieval.comparison.first_stage import LateSpec, TermSpec
from retrieval.comparison.spec import CachedRetriever, Spec
from retrieval.explain.encoders import LateExplanation
from retrieval.rankings import DEPTH, Findings, Truth
from retrieval.report.drawing import colour_of, shape_of
from text.marking import MarkedText
from views.choices import Choices, method_line
from views.names import base_name
from views.reasons import AskedQuestion
from views.resources.retrieval import explained_late, findings, listening, marked_passages, materials
from views.resources.sets import question_set
from views.search.judging import draw_mark
from views.ui import tables
from views.ui.job import once_asked
from views.ui.passages import (
    card,
    draw_matches,
    head_html,
    hit,
    hits_html,
    legend_html,
    matches_html,
    right_ranks,
    side_by_side,
    truth_line,
)
from views.ui.problems import search_failure_text
from views.ui.words import duration, known, plain, word

logger = logging.getLogger(__name__)

Outcome = Findings | Exception


def everything(data: StoredSet, choices: Choices) -> str:
    """Return one experiment of all that can be picked, as JSON: another pick finds the models loaded."""
    return choices.experiment(data, choices.searchable, Part.ALL).model_dump_json()


def search(data: StoredSet, choices: Choices, picked: list[str], question: str) -> dict[str, Outcome]:
    """Return what each retriever picked, or wrapped by one, found, or why it failed; the first search builds them."""
    key, names = (data.key, everything(data, choices)), [spec.name for spec in choices.needed(picked)]
    with st.spinner(word("search.preparing"), show_time=True):
        again = st.session_state.pop("try_failed_again", False)
        if again and any(isinstance(one, Exception) for one in materials(*key).made.values()):
            materials.clear(*key)
        made = materials(*key).made
    if all(not isinstance(retriever := made[name], CachedRetriever) or retriever.ready for name in names):
        return {name: _outcome(*key, name, question) for name in names}
    outcomes: dict[str, Outcome] = {}
    place = st.empty()
    with place.status(word("search.loading"), expanded=True) as status:
        st.caption(word("search.loading"))
        st.button(word("search.stop"), icon=":material/stop:", on_click=_stop)
        for number, name in enumerate(names, start=1):
            began = time.perf_counter()
            told = {"name": plain(name), "number": number, "all": len(names)}
            model = dict(choices.specs[name]).get("model")
            told |= {"model": plain(base_name(model, read=choices.plans))} if model else {}
            status.update(label=word(f"search.loading_{'model' if model else 'one'}", **told), expanded=True)
            outcomes[name] = _prepared(made[name]) or _outcome(*key, name, question)
            st.write(word("search.loaded_one", name=plain(name), time=duration(time.perf_counter() - began)))
    place.empty()
    return outcomes


def _prepared(retriever: CachedRetriever | Exception) -> Exception | None:
    """Build a retriever, with a bar where it tells how far it is; returns what went wrong.

    Each move of the bar lets the run be stopped, or replaced by a newer one; what was analyzed or encoded is kept.
    """
    if isinstance(retriever, Exception):
        return retriever
    place, began = st.empty(), time.perf_counter()

    def draw(share: float) -> None:
        # of too small a share done, the time left cannot be told
        left = (time.perf_counter() - began) * (1 - share) / share if share > 0.02 else None
        place.progress(min(1.0, share), word("search.preparing_left", left=duration(left)) if left else None)

    try:
        with listening(draw):
            retriever.prepare()
    except Exception as error:
        logger.warning("retriever %r cannot be built: %s", retriever.name, error, exc_info=not hasattr(error, "code"))
        return error
    finally:
        place.empty()
    return None


def _stop() -> None:
    """Ask nothing any more; the question stays in its box."""
    st.query_params.pop("q", None)
    st.session_state.pop("kept_q", None)
    st.session_state["search_stopped"] = True


def try_failed_again() -> None:
    """Have the next search make anew what could not be made: the hub may answer by now."""
    st.session_state["try_failed_again"] = True


def _outcome(key: str, experiment: str, name: str, question: str) -> Outcome:
    try:
        return findings(key, experiment, name, question)
    except Exception as error:
        logger.warning("retriever %r failed: %s", name, error, exc_info=not hasattr(error, "code"))
        return error


@dataclass(frozen=True)
class SearchAnswer:
    """A question, what each retriever found (those that others wrap included), and what the set knows of it."""

    data: StoredSet
    question: str
    outcomes: dict[str, Outcome]
    truth: Truth | None
    k: int
    judged: tuple[int, ...] = ()  # rows of the passages that a person judged right

    @property
    def questions(self) -> QuestionSet:
        return question_set(self.data.key)

    @property
    def right(self) -> tuple[int, ...]:
        """Rows of the passages that are known to answer: the set's, then those that a person judged so."""
        return tuple(dict.fromkeys((self.truth.rows if self.truth else ()) + self.judged))

    def shown(self, name: str) -> list[int]:
        """Rows of the first passages that a retriever found, and of those that answer wherever they were found."""
        rows = self.found[name].rows
        return [*rows[: self.k], *(row for row in rows[self.k :] if row in self.right)]

    @property
    def asked(self) -> AskedQuestion:
        """The same for what gives reasons."""
        depths = dict.fromkeys(self.found, DEPTH)
        return AskedQuestion(self.data.key, self.question, self.right, self.found, depths)

    def blind(self, specs: Sequence[Spec]) -> dict[str, list[str]]:
        """Parts that found nothing, and the mixes among `specs` that found something without them."""
        nothing = {name: int(not found.rows) for name, found in self.found.items()}
        mixes: dict[str, list[str]] = {}
        for name, part in blind_parts(specs, nothing):
            if name in self.found and not nothing[name]:
                mixes.setdefault(part, []).append(name)
        return mixes

    @property
    def found(self) -> dict[str, Findings]:
        return {name: outcome for name, outcome in self.outcomes.items() if isinstance(outcome, Findings)}


def draw_blind(answer: SearchAnswer, specs: Sequence[Spec], choices: Choices) -> None:
    """Say which mixes stand on fewer parts than they have, as one of these found nothing for the question."""
    for part, names in answer.blind(specs).items():
        key = "search.blind_words" if isinstance(choices.specs[part], TermSpec) else "search.blind"
        said = word(key, part=plain(part), names=plain(", ".join(names)))
        st.info(said, icon=":material/visibility_off:")


def draw_columns(answer: SearchAnswer, specs: Sequence[Spec], choices: Choices) -> None:
    names = list(choices.specs)
    st.html(legend_html(truth=bool(answer.truth and answer.truth.answers)))
    shown = [answer.shown(spec.name) for spec in specs if spec.name in answer.found]
    rows = tuple(dict.fromkeys(row for of in shown for row in of))
    marks = dict(zip(rows, marked_passages(answer.data.key, answer.question, rows), strict=True))
    found = [answer.found.get(spec.name) for spec in specs]
    firsts = [next(iter(right_ranks(one, answer.right)), None) if one else None for one in found]
    columns = side_by_side([spec.name for spec in specs], names, firsts, "search")
    for column, spec in zip(columns, specs, strict=True):
        with column:
            outcome = answer.outcomes[spec.name]
            known = isinstance(outcome, Findings) and answer.right
            truth = truth_line(answer.found[spec.name], answer.right, DEPTH) if known else ""
            does = method_line(spec, choices).removeprefix(f"{spec.name}: ")
            st.html(head_html(spec.name, colour_of(spec.name, names), shape_of(spec.name, names), truth, does))
            if isinstance(outcome, Exception):
                st.error(plain(search_failure_text(outcome)), icon=":material/error:")
            elif not outcome.rows:
                st.info(word("search.found_nothing"), icon=":material/info:")
            else:
                score = _score_word(spec)
                st.caption(word(score), help=word(f"{score}_help"))
                _draw_hits(answer, spec, marks)


def _draw_hits(answer: SearchAnswer, spec: Spec, marks: Mapping[int, tuple[MarkedText, MarkedText]]) -> None:
    ids = answer.questions.passages.ids
    known = answer.truth.rows if answer.truth else ()
    for row in answer.shown(spec.name):
        one = hit(spec, answer.found, row, ids[row], marks[row], relevant=row in answer.right)
        key, is_right = f"{spec.name} {row}", row in answer.judged
        with card(key):
            st.html(hits_html([one]))
            if row not in known:
                draw_mark(answer.questions, answer.question, row, key, is_right=is_right)


def draw_table(answer: SearchAnswer, specs: Sequence[Spec]) -> None:
    found = {spec.name: answer.found[spec.name] for spec in specs if spec.name in answer.found}
    passages = answer.questions.passages

    def label(row: int) -> str:
        named = " · ".join(filter(None, (passages[row].title, passages[row].id)))
        return f"✔ {named}" if row in answer.right else named

    table = pd.DataFrame({"rank": range(1, answer.k + 1)})
    columns = {"rank": tables.number("search.rank", width="small", pinned=True)}
    for spec in specs:
        if spec.name in found:
            outcome = found[spec.name]
            labels = [label(row) for row in outcome.rows[: answer.k]]
            table[f"{spec.name} passage"] = pd.Series(labels, dtype=object)
            table[f"{spec.name} score"] = pd.Series(outcome.scores[: answer.k], dtype=float)
            columns[f"{spec.name} passage"] = st.column_config.TextColumn(spec.name)
            columns[f"{spec.name} score"] = st.column_config.NumberColumn(
                word("search.score_of", name=spec.name),
                format=f"%.{spec.local.digits}f",
                help=word(f"{_score_word(spec)}_help"),
            )
    with st.expander(word("search.as_table"), icon=":material/table:"):
        tables.draw(table, columns)
        tables.draw_csv("search.csv", lambda: _long_table(answer, found), "search.csv")


def _score_word(spec: Spec) -> str:
    """Return the key of the words that say what a score is; there is one of words for any score."""
    key = f"search.score_{spec.local.score_kind}"
    return key if known(key) else "search.score_other"


def _long_table(answer: SearchAnswer, found: dict[str, Findings]) -> pd.DataFrame:
    passages = answer.questions.passages
    return pd.DataFrame(
        [
            {
                "question": answer.question,
                "retriever": name,
                "rank": rank,
                "passage_id": passages[row].id,
                "title": passages[row].title,
                "score": outcome.scores[rank - 1],
                "relevant": row in answer.right if answer.truth or answer.judged else None,
            }
            for name, outcome in found.items()
            for rank, row in enumerate(outcome.rows[: answer.k], start=1)
        ]
    )


@st.fragment
def draw_pieces(answer: SearchAnswer, spec: LateSpec, experiment: str) -> None:
    """Draw which piece of a passage found by late interaction answered which of the question, for whoever asks."""
    found, passages = answer.found[spec.name], answer.questions.passages
    compared = found.rows[: spec.depth] if spec.first else found.rows  # below, another retriever's order stays
    rows = [row for row in answer.shown(spec.name) if row in compared]
    if not rows:
        return

    def label(row: int) -> str:
        return plain(" · ".join(filter(None, (str(found.rank_of(row)), passages[row].title, passages[row].id))))

    with st.expander(word("search.pieces", name=plain(spec.name)), icon=":material/join_inner:", expanded=True):
        st.caption(word("why.matches_help"))
        key = f"pieces {spec.name} {answer.question}"
        picked: int = st.selectbox(word("search.pieces_of"), rows, format_func=label, key=key)

        def tell() -> LateExplanation:
            return explained_late(answer.data.key, experiment, spec.model_dump_json(), answer.question, picked)

        explained = once_asked(spec.name, word("search.pieces_ask"), tell)
        if explained is None:
            return
        left, right = st.columns([3, 2])
        with left:
            st.html(matches_html(explained, gold=picked in answer.right))
        with right:
            draw_matches({"answered": explained})
