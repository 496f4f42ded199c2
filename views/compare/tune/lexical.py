"""The lab of words: whether titles, feedback, compounds or a user dictionary help BM25, one change at a time."""

import streamlit as st

from retrieval.analysis.labs import MOST_CHANGES, UNCHANGED, best, changes, lexical_lab
from retrieval.comparison.experiment import Experiment
from retrieval.comparison.first_stage import BM25Spec, TermSpec, WindowedBM25Spec
from retrieval.comparison.store import ComparisonJob
from views.compare.tune.bench import (
    Bench,
    LabResult,
    difference_columns,
    draw_table,
    draw_verdict,
    figure_columns,
    names_of,
    run,
)
from views.compare.tune.changes import in_words, offered, pick, pick_dictionary_alone
from views.compare.tune.dictionary import view as dictionary_view
from views.compare.tune.dictionary.names import names_by_reference
from views.ui import tables
from views.ui.problems import errors_told
from views.ui.state import choose, leave_top, remember, show_top
from views.ui.words import plain, word

_NEW, _TRIED = "new_dictionary", "dictionary_tried"  # of the session: a reference, and whether its lab just began


def draw(bench: Bench) -> None:
    """Draw what is tried, what was found, and the user dictionary."""
    if st.session_state.pop(_TRIED, False):  # from below: the lab is above
        leave_top()
        show_top("lab")
    names = names_of(bench, BM25Spec, WindowedBM25Spec)
    present = ""
    if names:
        with st.container(border=True):
            label, help_text = word("tune.present"), word("tune.present_help")
            present = choose(st.selectbox, "tuned", label, names, names[0], follows=True, help=help_text)
            experiment = _pick(bench, present)
        found = run(bench, experiment) if experiment else None
        if found:
            _draw_found(bench, found, present)
    else:
        st.info(word("tune.needs_bm25"), icon=":material/info:")
    if made := dictionary_view.draw(bench):
        st.session_state[_NEW] = made.reference
        remember("dictionary", made.reference)  # what is taken next comes on top of it
        st.toast(
            word("dictionary_page.kept", name=plain(names_by_reference()[made.reference])), icon=":material/check:"
        )
        st.rerun()
    _draw_new(bench, present)


def _pick(bench: Bench, present: str) -> Experiment | None:
    compared = bench.view.comparison.experiment
    known = _spec(bench, present)
    if (kinds := pick(offered(bench, known))) is None:
        st.info(word("tune.pick_changes"), icon=":material/info:")
        return None
    try:
        return lexical_lab(compared, present, kinds)
    except ValueError:
        st.error(word("tune.too_many_changes", most=MOST_CHANGES), icon=":material/error:")
        return None


def _spec(bench: Bench, name: str) -> TermSpec:
    spec = bench.view.spec(name)
    if not isinstance(spec, TermSpec):
        raise TypeError(f"{name!r} is no BM25")
    return spec


def _draw_found(bench: Bench, found: LabResult, present: str) -> None:
    names = names_by_reference()
    table = found.table.assign(change=[in_words(row, names) for _, row in found.table.iterrows()])
    leader, figures, differences = best(table), figure_columns(bench), difference_columns("tune.gained")
    answer = st.container()
    name = draw_table(
        LabResult(found.experiment, found.opened, table),
        {
            "value": figures.pop("value"),
            "difference": differences.pop("difference"),
            "change": tables.text("tune.change"),  # long: on a phone, figures after it are out of sight
            **differences,
            **figures,
        },
        leader,
        key="lexical_table",
    )
    with answer:
        if name == UNCHANGED:
            st.info(word("tune.unchanged_is_best", figure=bench.measure.long), icon=":material/info:")
        else:
            draw_verdict(bench, found, name, present, is_best=name == leader)


def _draw_new(bench: Bench, present: str) -> None:
    """Offer to try the dictionary that was kept last: with it, and without."""
    reference = st.session_state.get(_NEW, "")
    name = names_by_reference().get(reference)
    if not name:
        return
    with st.container(border=True):
        st.markdown(word("dictionary_page.kept", name=plain(name)))
        if not present or reference not in offered(bench, _spec(bench, present)).dictionaries:
            return
        if st.button(word("dictionary_page.try", name=plain(present)), icon=":material/science:", key="try_dictionary"):
            with errors_told():
                _try(bench, present, reference)
                st.rerun()


def _try(bench: Bench, present: str, reference: str) -> None:
    experiment = lexical_lab(bench.view.comparison.experiment, present, [changes(dictionary=(reference,))])
    job = ComparisonJob.of(experiment, bench.view.data.fingerprint)
    if not job.done and not job.running:
        job.start(experiment)
    pick_dictionary_alone(reference)
    st.session_state.pop(_NEW)
    st.session_state[_TRIED] = True
