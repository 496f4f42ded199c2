"""The lab of words: whether titles, feedback, compounds or a user dictionary help BM25, one change at a time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from retrieval.analysis.labs import (
    FEEDBACK_PASSAGES,
    FEEDBACK_SHARES,
    MOST_CHANGES,
    TITLE_WEIGHTS,
    UNCHANGED,
    Change,
    best,
    changes,
    lexical_lab,
)
from retrieval.comparison.experiment import Experiment
from retrieval.comparison.first_stage import BM25Spec, TermSpec, WindowedBM25Spec
from retrieval.comparison.store import ComparisonJob
from retrieval.lexical.engines import Engine
from text.analysis import WITH_KIWI
from text.analyzers import Analyzer, Compounds
from text.dictionary import stored
from views.compare.tune import dictionaries as dictionary_view
from views.compare.tune.bench import (
    Bench,
    LabResult,
    difference_columns,
    draw_table,
    draw_verdict,
    figure_columns,
    names_by_reference,
    names_of,
    run,
)
from views.resources.retrieval import analyzers_of
from views.ui import tables
from views.ui.problems import errors_told
from views.ui.state import choose, choose_several, leave_top, remember, show_top
from views.ui.words import plain, word

_ROUND = "changes_round"  # how often something else than a click changed what is picked
_USUAL_WEIGHTS, _USUAL_PASSAGES = ("2", "5"), ("10",)
_NEW, _TRIED = "new_dictionary", "dictionary_tried"  # of the session: a reference, and whether its lab just began


def draw(bench: Bench) -> None:
    if st.session_state.pop(_TRIED, False):  # from below: the lab is above
        leave_top()
        show_top("lab")
    names = names_of(bench, BM25Spec, WindowedBM25Spec)
    present = ""
    if names:
        with st.container(border=True):
            label, help_text = word("tune.present"), word("tune.present_help")
            present = choose(st.selectbox, "tuned", label, names, names[0], follows=True, help=help_text)
            experiment = _pick_lab(bench, present)
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


def _pick_lab(bench: Bench, present: str) -> Experiment | None:
    of = _offered(bench, _spec(bench, present))
    usual = [kind for kind in of.kinds if kind != "dictionary" or of.dictionaries]
    kinds = _several("changes", of.kinds, usual, lambda kind: word(f"tune.change_{kind}"), "tune.changes_help")
    now = dict(of.present)
    tried = [[one for one in _PICK[kind](of) if any(now[name] != one[name] for name in one)] for kind in kinds]
    if not tried or not all(tried):
        st.info(word("tune.pick_changes"), icon=":material/info:")
        return None
    try:
        return lexical_lab(bench.view.comparison.experiment, present, tried)
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
    table = found.table.assign(change=[_in_words(row, names) for _, row in found.table.iterrows()])
    leader, figures, differences = best(table), figure_columns(bench), difference_columns("tune.gained")
    answer = st.container()
    name = draw_table(
        found,
        table,
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
        if not present or reference not in _offered(bench, _spec(bench, present)).dictionaries:
            return
        if st.button(word("dictionary_page.try", name=plain(present)), icon=":material/science:", key="try_dictionary"):
            with errors_told():
                experiment = lexical_lab(bench.view.comparison.experiment, present, [changes(dictionary=(reference,))])
                job = ComparisonJob.of(experiment, bench.view.data.fingerprint)
                if not job.done and not job.running:
                    job.start(experiment)
                # the page tries that dictionary, and nothing else, when it is drawn next
                st.query_params.update({"changes": "dictionary", "dictionaries": reference})
                st.session_state[_ROUND] = st.session_state.get(_ROUND, 0) + 1
                st.session_state.pop(_NEW)
                st.session_state[_TRIED] = True
                st.rerun()


@dataclass(frozen=True)
class Offered:
    """Which changes the `present` BM25 can have: the kinds, and the dictionaries that its analyzer can use.

    These are references; the empty one, for none, is offered where it has one.
    """

    present: TermSpec
    kinds: tuple[str, ...]
    dictionaries: tuple[str, ...]


def _offered(bench: Bench, present: TermSpec) -> Offered:
    """Return what can be changed of a BM25, as its analyzer and its engine can."""
    analyzer = present.analyzer
    if analyzer is Analyzer.AUTO:
        analyzer = analyzers_of(bench.view.data.key)[0]
    of_kiwi, postings = analyzer in WITH_KIWI, not isinstance(present, BM25Spec) or present.engine is Engine.POSTINGS
    fit = {
        "title": present.title and postings,
        "feedback": isinstance(present, BM25Spec) and postings,
        "compounds": of_kiwi,
        "dictionary": analyzer is not Analyzer.BIGRAM,
    }
    usable = [one.reference for one in stored() if of_kiwi or (one.synonyms and fit["dictionary"])]
    without = [""] if present.dictionary else []
    others = [reference for reference in usable if reference != present.dictionary]
    return Offered(present, tuple(kind for kind, fits in fit.items() if fits), (*without, *others))


def _in_words(row: "pd.Series[Any]", names: Mapping[str, str]) -> str:
    """Return what a row of the lab's table changes; `names` are those of dictionaries by reference. Not Markdown."""
    changed, said = set(row["changed"]), []
    if "title_weight" in changed:
        said.append(word("tune.said_title", weight=f"{row['title_weight']:g}"))
    if changed & {"feedback_passages", "feedback_terms", "feedback_share"}:
        share = f"{row['feedback_share'] * 100:g}"
        said.append(word("tune.said_feedback", passages=f"{row['feedback_passages']:g}", share=share))
    if "compounds" in changed:
        said.append(word(f"tune.said_{str(row['compounds']).replace('-', '_')}"))
    if "dictionary" in changed:
        reference = str(row["dictionary"])
        name = names.get(reference, reference)
        said.append(word("tune.said_dictionary", name=name) if reference else word("tune.without_dictionary"))
    return " · ".join(said) or word("tune.unchanged")


def _pick_title(of: Offered) -> list[Change]:
    weights = [f"{weight:g}" for weight in TITLE_WEIGHTS if weight != of.present.title_weight]
    picked = _several("titles", weights, _USUAL_WEIGHTS, lambda weight: f"× {weight}", "tune.titles_help")
    return changes(title_weight=[float(weight) for weight in picked])


def _pick_feedback(_: Offered) -> list[Change]:
    left, right = st.columns(2)
    with left:
        every = [str(passages) for passages in FEEDBACK_PASSAGES]
        passages = _several("passages", every, _USUAL_PASSAGES, str, "tune.passages_help")
    with right:
        every = [f"{share:g}" for share in FEEDBACK_SHARES]
        shares = _several("shares", every, every, lambda share: f"{float(share) * 100:g}%", "tune.shares_help")
    return changes(feedback_passages=list(map(int, passages)), feedback_share=list(map(float, shares)))


def _pick_compounds(of: Offered) -> list[Change]:
    every = [compounds.value for compounds in Compounds if compounds is not of.present.compounds]

    def called(value: str) -> str:
        return word(f"tune.compounds_{value.replace('-', '_')}")

    picked = _several("compounds", every, every, called, "tune.compounds_help")
    return changes(compounds=[Compounds(value) for value in picked])


def _pick_dictionary(of: Offered) -> list[Change]:
    if not of.dictionaries:
        st.info(word("tune.no_dictionary"), icon=":material/info:")
        return []
    names, newest = names_by_reference(), of.dictionaries[:1]

    def called(reference: str) -> str:
        return plain(names.get(reference, reference)) if reference else word("tune.without_dictionary")

    return changes(dictionary=_several("dictionaries", of.dictionaries, newest, called, "tune.dictionaries_help"))


def _several(
    name: str, options: Sequence[str], usual: Sequence[str], called: Callable[[str], str], explained_by: str
) -> list[str]:
    return choose_several(
        st.pills,
        name,
        word(f"tune.{name}"),
        options,
        usual,
        key=f"lab_{name}_{'-'.join(options)}_{st.session_state.get(_ROUND, 0)}",
        format_func=called,
        help=word(explained_by),
        wrap=True,
    )


_PICK = {"title": _pick_title, "feedback": _pick_feedback, "compounds": _pick_compounds, "dictionary": _pick_dictionary}
