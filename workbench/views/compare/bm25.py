"""The labs of BM25: which analyzer, which k1 and b, whether windows of sentences; and whether titles, feedback,
compounds or a user dictionary help, one change at a time.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.text.analysis import WITH_KIWI
from mrc_workbench.data.text.analyzers import Analyzer, Compounds
from mrc_workbench.data.text.dictionary import stored
from mrc_workbench.retrieval.analysis.labs import (
    BS,
    FEEDBACK_PASSAGES,
    FEEDBACK_SHARES,
    K1S,
    MOST_CHANGES,
    TITLE_WEIGHTS,
    Change,
    best,
    bm25_lab,
    changes,
    lexical_lab,
    numbers,
    tried,
)
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, TermSpec, WindowedBM25Spec
from mrc_workbench.retrieval.comparison.store import ComparisonJob
from mrc_workbench.retrieval.lexical import Engine
from mrc_workbench.retrieval.lexical.terms import UnmatchedQuestions
from mrc_workbench.workbench.views.compare import dictionaries
from mrc_workbench.workbench.views.compare.bench import (
    Bench,
    LabResult,
    difference_columns,
    draw_tried,
    figure_columns,
    heat,
    names_by_reference,
    names_of,
    pick_present,
    run,
)
from mrc_workbench.workbench.views.compare.dictionaries import choose_analyzers, draw_readings
from mrc_workbench.workbench.views.names import analyzer_words, retriever_name
from mrc_workbench.workbench.views.resources.retrieval import analyzers_of
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.charts import draw_chart
from mrc_workbench.workbench.views.ui.state import choose_several, leave_top, remember, show_top, typed
from mrc_workbench.workbench.views.ui.tables import draw_heading
from mrc_workbench.workbench.views.ui.words import errors_told, plain, word

_KINDS = (BM25Spec, WindowedBM25Spec)
_WINDOWS = ("0", "1", "3")  # sentences; 0 is the whole passage
_ROUND = "changes_round"  # how often something else than a click changed what is picked
_NEW, _TRIED = "new_dictionary", "dictionary_tried"  # of the session: a reference, and whether its lab just began


def draw_values(bench: Bench) -> None:
    names = names_of(bench, *_KINDS)
    if not names:
        st.info(word("tune.needs_bm25"), icon=":material/info:")
        draw_readings(bench)
        return
    place = st.container()
    experiment = _pick_values(bench, names)
    with place:
        if experiment and (found := run(bench, experiment, _tried_in_words(experiment))):
            _draw_values_found(bench, found, next(spec.name for spec in experiment.retriever if not spec.chosen_on))
            _draw_unmatched(found)
    draw_readings(bench)


def _pick_values(bench: Bench, names: list[str]) -> Experiment | None:
    with st.container(border=True):
        look: dict[str, Any] = {"format_func": retriever_name, "help": word("tune.present_help")}
        present = st.selectbox(word("tune.present"), names, key="lab_bm25", **look)
        analyzers = choose_analyzers(bench.view.data.key)
        look = {"format_func": lambda length: word(f"tune.window_{length}"), "help": word("tune.windows_help")}
        label, usual = word("tune.windows"), _WINDOWS[:1]
        windows = choose_several(st.pills, "windows", label, _WINDOWS, usual, key="lab_windows", **look)
        left, right = st.columns(2)
        # in the address, so that a reload finds the same lab
        k1s, bs = (
            typed(column.text_input, name, name, ", ".join(f"{one:g}" for one in ones), help=word(f"tune.{name}_help"))
            for column, name, ones in ((left, "k1", K1S), (right, "b", BS))
        )
    if not analyzers or not windows or not present:
        st.info(word("tune.pick_values"), icon=":material/info:")
        return None
    try:
        values = {"k1s": numbers(k1s, most=10.0), "bs": numbers(bs, most=1.0)}
    except ValueError:
        st.error(word("tune.no_numbers"), icon=":material/error:")
        return None
    lengths = [int(length) for length in windows]
    return bm25_lab(bench.view.comparison.experiment, present, analyzers, sentences=lengths, **values)


def _tried_in_words(experiment: Experiment) -> str:
    specs = [spec for spec in tried(experiment) if isinstance(spec, TermSpec)]
    analyzers = ", ".join(analyzer_words(analyzer) for analyzer in dict.fromkeys(spec.analyzer for spec in specs))
    counts = {"k1s": len({spec.k1 for spec in specs}), "bs": len({spec.b for spec in specs})}
    return word("tune.tries_values", analyzers=analyzers, **counts)


def _draw_values_found(bench: Bench, found: LabResult, present: str) -> None:
    table, leader = found.table, best(found.table)
    answer = st.container()
    bounds = (float(table["value"].min()), float(table["value"].max()))
    places = st.columns(2)
    for number, ((analyzer, sentences), part) in enumerate(table.groupby(["analyzer", "sentences"], sort=False)):
        with places[number % 2]:
            window = f" · {word(f'tune.window_{sentences}')}" if table["sentences"].nunique() > 1 else ""
            draw_heading(f"{plain(analyzer_words(Analyzer(str(analyzer))))}{window}")
            k1, b = ("k1", "k1"), ("b", "b")
            draw_chart(heat, part, leader, x=k1, y=b, value=bench.measure.long, bounds=bounds, key=f"heat_{number}")
    table = table.assign(
        analyzer=[analyzer_words(Analyzer(value)) for value in table["analyzer"]],
        window=[word(f"tune.window_{length}") for length in table["sentences"]],
    )
    columns = {
        "analyzer": tables.text("tune.analyzer", pinned=True),
        "window": tables.text("tune.windows", ""),
        "k1": "k1",
        "b": "b",
        **figure_columns(bench),
    }
    draw_tried(bench, found, table, columns, present, key="bm25_table", answer=answer)


def _draw_unmatched(found: LabResult) -> None:
    """Draw, for every analyzer of a lab, the questions without a term in common with any passage, or with their own."""
    specs = [spec for spec in tried(found.experiment) if isinstance(spec, BM25Spec | WindowedBM25Spec)]
    counts = {analyzer: found.opened.unmatched(analyzer) for analyzer in dict.fromkeys(spec.analyzer for spec in specs)}
    with st.expander(word("tune.unmatched"), icon=":material/search_off:"):
        st.caption(word("tune.unmatched_help"))
        table = [(analyzer_words(analyzer), len(rows.own), len(rows.anywhere)) for analyzer, rows in counts.items()]
        columns = {"analyzer": "analyzer", "own": "not_in_own", "anywhere": "not_anywhere"}
        labels = {name: word(f"tune.{key}") for name, key in columns.items()}
        tables.draw(pd.DataFrame(table, columns=[*columns]), labels)
        with_some = [str(analyzer) for analyzer, rows in counts.items() if len(rows.own)]
        if not with_some:
            st.markdown(word("tune.all_matched"))
            return
        look: dict[str, Any] = {"format_func": lambda value: analyzer_words(Analyzer(value)), "key": "lab_unmatched"}
        chosen = st.segmented_control(word("tune.analyzer"), with_some, default=with_some[0], **look)
        _draw_unmatched_questions(found.opened.question_set, counts[Analyzer(chosen or with_some[0])])


def _draw_unmatched_questions(asked: QuestionSet, rows: UnmatchedQuestions) -> None:
    questions = [asked.questions[row] for row in rows.own]
    passages = [asked.passages[asked.row_of_passage[one.relevant[0]]] for one in questions]
    table = pd.DataFrame({"question": [one.text for one in questions], "anywhere": ~np.isin(rows.own, rows.anywhere)})
    table["passage"] = [" · ".join(filter(None, (one.title, one.text))) for one in passages]
    columns = {
        "question": tables.text("column.question", "", width="medium"),
        "passage": tables.text("tune.own_passage", width="large"),
        "anywhere": tables.checkbox("tune.in_others"),
    }
    tables.draw(table, columns)


def draw_changes(bench: Bench) -> None:
    if st.session_state.pop(_TRIED, False):  # from below: the lab is above
        leave_top()
        show_top("lab")
    present, place = "", st.container()
    if names_of(bench, *_KINDS):
        with st.container(border=True):
            present = pick_present(bench, _KINDS, "tuned")
            experiment = _pick_changes(bench, present)
        with place:
            if experiment and (found := run(bench, experiment)):
                _draw_changes_found(bench, found, present)
    else:
        st.info(word("tune.needs_bm25"), icon=":material/info:")
    if made := dictionaries.draw(bench):
        st.session_state[_NEW] = made.reference
        remember("dictionary", made.reference)  # what is taken next comes on top of it
        name = plain(names_by_reference()[made.reference])
        st.toast(word("dictionary_page.kept", name=name), icon=":material/check:")
        st.rerun()
    _offer_new(bench, present)


def _pick_changes(bench: Bench, present: str) -> Experiment | None:
    of = _offered(bench, present)
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


def _draw_changes_found(bench: Bench, found: LabResult, present: str) -> None:
    names = names_by_reference()
    table = found.table.assign(change=[_in_words(row, names) for _, row in found.table.iterrows()])
    figures, differences = figure_columns(bench), difference_columns("tune.gained")
    columns = {
        "value": figures.pop("value"),
        "difference": differences.pop("difference"),
        "change": tables.text("tune.change"),  # long: on a phone, figures after it are out of sight
        **differences,
        **figures,
    }
    draw_tried(bench, found, table, columns, present, key="lexical_table", answer=st.container())


def _offer_new(bench: Bench, present: str) -> None:
    reference = st.session_state.get(_NEW, "")
    name = names_by_reference().get(reference)
    if not name:
        return
    with st.container(border=True):
        st.markdown(word("dictionary_page.kept", name=plain(name)))
        if not present or reference not in _offered(bench, present).dictionaries:
            return
        label = word("dictionary_page.try", name=plain(retriever_name(present)))
        if st.button(label, icon=":material/science:", key="try_dictionary"):
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
class _Offered:
    """Which changes a BM25 can have: the kinds, and the dictionaries by reference, the empty one for none."""

    present: TermSpec
    kinds: tuple[str, ...]
    dictionaries: tuple[str, ...]


def _offered(bench: Bench, name: str) -> _Offered:
    present = bench.view.spec(name)
    if not isinstance(present, TermSpec):
        raise TypeError(f"{name!r} is no BM25")
    analyzer = analyzers_of(bench.view.data.key)[0] if present.analyzer is Analyzer.AUTO else present.analyzer
    of_kiwi, postings = analyzer in WITH_KIWI, not isinstance(present, BM25Spec) or present.engine is Engine.POSTINGS
    fit = {
        "title": present.title and postings,
        "feedback": isinstance(present, BM25Spec) and postings,
        "compounds": of_kiwi,
        "dictionary": analyzer not in (Analyzer.BIGRAM, Analyzer.JAPANESE),
    }
    usable = [one.reference for one in stored() if of_kiwi or (one.synonyms and fit["dictionary"])]
    without = [""] if present.dictionary else []
    others = [reference for reference in usable if reference != present.dictionary]
    return _Offered(present, tuple(kind for kind, fits in fit.items() if fits), (*without, *others))


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


def _pick_title(of: _Offered) -> list[Change]:
    weights = [f"{weight:g}" for weight in TITLE_WEIGHTS if weight != of.present.title_weight]
    picked = _several("titles", weights, ("2", "5"), lambda weight: f"× {weight}", "tune.titles_help")
    return changes(title_weight=[float(weight) for weight in picked])


def _pick_feedback(_: _Offered) -> list[Change]:
    left, right = st.columns(2)
    with left:
        every = [str(passages) for passages in FEEDBACK_PASSAGES]
        passages = _several("passages", every, ("10",), str, "tune.passages_help")
    with right:
        every = [f"{share:g}" for share in FEEDBACK_SHARES]
        shares = _several("shares", every, every, lambda share: f"{float(share) * 100:g}%", "tune.shares_help")
    return changes(feedback_passages=[*map(int, passages)], feedback_share=[*map(float, shares)])


def _pick_compounds(of: _Offered) -> list[Change]:
    every = [compounds.value for compounds in Compounds if compounds is not of.present.compounds]

    def called(value: str) -> str:
        return word(f"tune.compounds_{value.replace('-', '_')}")

    return changes(compounds=[*map(Compounds, _several("compounds", every, every, called, "tune.compounds_help"))])


def _pick_dictionary(of: _Offered) -> list[Change]:
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
    key = f"lab_{name}_{'-'.join(options)}_{st.session_state.get(_ROUND, 0)}"
    look: dict[str, Any] = {"format_func": called, "help": word(explained_by), "wrap": True}
    return choose_several(st.pills, name, word(f"tune.{name}"), options, usual, key=key, **look)


_PICK = {"title": _pick_title, "feedback": _pick_feedback, "compounds": _pick_compounds, "dictionary": _pick_dictionary}
