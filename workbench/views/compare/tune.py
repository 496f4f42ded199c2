"""The Tune tab: labs that select settings on the validation questions. The lab of BM25's options is in `lexical`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import MIN_QUESTIONS, Part
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.models.inference import TokenLayers
from mrc_workbench.retrieval.analysis import labs
from mrc_workbench.retrieval.analysis.questions import first_relevant_passages
from mrc_workbench.retrieval.combine import Fusion
from mrc_workbench.retrieval.comparison.experiment import Experiment, LabKind
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec, LateSpec, TermSpec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec, RerankSpec
from mrc_workbench.retrieval.dense import IndexKind
from mrc_workbench.retrieval.lexical.terms import LANGUAGE_INDEPENDENT, LANGUAGE_SPECIFIC, UnmatchedQuestions, readings
from mrc_workbench.retrieval.measures import Measure
from mrc_workbench.retrieval.significance import question_groups
from mrc_workbench.workbench.views.compare.bench import BM25_KINDS, Bench, LabResult, against_cost, bands, heat
from mrc_workbench.workbench.views.compare.lexical import draw_changes
from mrc_workbench.workbench.views.compare.scores import ComparisonView
from mrc_workbench.workbench.views.names import analyzer_words, draw_split, retriever_name, retriever_names, warn_if_few
from mrc_workbench.workbench.views.resources.retrieval import analyzers_of
from mrc_workbench.workbench.views.resources.sets import question_set, split_of
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.charts import draw_chart
from mrc_workbench.workbench.views.ui.state import choose, choose_several, draw_text_field
from mrc_workbench.workbench.views.ui.words import plain, signed_interval, word

_FEW = 200  # with fewer questions an interval is wider than the usual gain of tuning
_WINDOWS = ("0", "1", "3")  # sentences; 0 is the whole passage


@st.fragment
def draw(view: ComparisonView) -> None:
    parts = split_of(view.data.key, view.comparison.experiment.split_options)
    validation = parts.questions(question_set(view.data.key), Part.VALIDATION)
    if not validation.questions:
        st.warning(word("tune.no_validation"), icon=":material/warning:")
        return
    questions = len(validation.questions)
    passages = int(question_groups(validation).max()) + 1
    names = {lab.value: word(f"tune.lab_{lab}") for lab in LABS}
    first = next(iter(names))
    label = word("tune.lab")
    lab = LabKind(choose(st.segmented_control, "lab", label, [*names], first, format_func=names.get))
    st.caption(word("tune.about", questions=f"{questions:,}", passages=f"{passages:,}"))
    draw_split(parts)
    warn_if_few(questions, Part.VALIDATION)
    if MIN_QUESTIONS <= questions < _FEW:
        st.caption(f":material/info: {word('tune.few', questions=f'{questions:,}')}")
    LABS[lab](Bench(view, view.metric, questions))


def _draw_values(bench: Bench) -> None:
    names = bench.names(*BM25_KINDS)
    if names:
        container = st.container()
        experiment = _pick_values(bench, names)
        with container:
            if experiment and (lab := bench.run(experiment, _tries_text(experiment))):
                present = next(spec.name for spec in experiment.retriever if not spec.selected_on)
                _draw_values_result(bench, lab, present)
                _draw_unmatched(lab)
    else:
        st.info(word("tune.needs_bm25"), icon=":material/info:")
    _draw_readings(bench.view.data.key)


def _pick_values(bench: Bench, names: list[str]) -> Experiment | None:
    with st.container(border=True):
        kwargs: dict[str, Any] = {"format_func": retriever_name, "help": word("tune.present_help")}
        present = st.selectbox(word("tune.present"), names, key="lab_bm25", **kwargs)
        analyzers = _choose_analyzers(bench.view.data.key)
        kwargs = {"format_func": lambda length: word(f"tune.window_{length}"), "help": word("tune.windows_help")}
        label = word("tune.windows")
        default = _WINDOWS[:1]
        windows = choose_several(st.pills, "windows", label, _WINDOWS, default, key="lab_windows", **kwargs)
        texts = {}
        for column, name, numbers in zip(st.columns(2), ("k1", "b"), (labs.K1S, labs.BS), strict=True):
            default_text = ", ".join(map("{:g}".format, numbers))
            about = word(f"tune.{name}_help")
            texts[name] = draw_text_field(column.text_input, name, name, default_text, help=about)
    if not analyzers or not windows or not present:
        st.info(word("tune.pick_values"), icon=":material/info:")
        return None
    try:
        k1s = labs.parse_numbers(texts["k1"], maximum=10.0)
        bs = labs.parse_numbers(texts["b"], maximum=1.0)
    except ValueError:
        st.error(word("tune.no_numbers"), icon=":material/error:")
        return None
    return labs.bm25_lab(bench.experiment, present, analyzers, sentences=[*map(int, windows)], k1s=k1s, bs=bs)


def _tries_text(experiment: Experiment) -> str:
    specs = [spec for spec in labs.tried_specs(experiment) if isinstance(spec, TermSpec)]
    analyzers = ", ".join(map(analyzer_words, dict.fromkeys(spec.analyzer for spec in specs)))
    counts = {"k1s": len({spec.k1 for spec in specs}), "bs": len({spec.b for spec in specs})}
    return word("tune.tries_values", analyzers=analyzers, **counts)


def _draw_values_result(bench: Bench, lab: LabResult, present: str) -> None:
    table = lab.table
    leader = labs.best_setting_name(lab.table)
    answer = st.container()
    bounds = (float(table["value"].min()), float(table["value"].max()))
    kwargs: dict[str, Any] = {"x": ("k1", "k1"), "y": ("b", "b"), "value": bench.measure.long_name, "bounds": bounds}
    chart_columns = st.columns(2)
    for number, ((analyzer, sentences), part) in enumerate(table.groupby(["analyzer", "sentences"], sort=False)):
        with chart_columns[number % 2]:
            window = f" · {word(f'tune.window_{sentences}')}" if table["sentences"].nunique() > 1 else ""
            tables.draw_heading(f"{plain(analyzer_words(Analyzer(str(analyzer))))}{window}")
            draw_chart(heat, part, leader, key=f"heat_{number}", **kwargs)
    windows = [word(f"tune.window_{length}") for length in table["sentences"]]
    table = table.assign(analyzer=[analyzer_words(Analyzer(value)) for value in table["analyzer"]], window=windows)
    columns: dict[str, Any] = {"analyzer": tables.text("tune.analyzer", pinned=True)}
    columns |= {"window": tables.text("tune.windows", ""), "k1": "k1", "b": "b", **bench.metric_columns()}
    bench.draw_settings(lab, table, columns, present, key="bm25_table", answer=answer)


def _draw_unmatched(lab: LabResult) -> None:
    """Draw, for each analyzer of a lab, the questions that share no term with their answer passage or with any."""
    specs = [spec for spec in labs.tried_specs(lab.experiment) if isinstance(spec, BM25_KINDS)]
    counts = {analyzer: lab.opened.unmatched(analyzer) for analyzer in dict.fromkeys(spec.analyzer for spec in specs)}
    with st.expander(word("tune.unmatched"), icon=":material/search_off:"):
        st.caption(word("tune.unmatched_help"))
        sizes = [(len(rows.without_relevant_match), len(rows.without_any_match)) for rows in counts.values()]
        table = pd.DataFrame(sizes, columns=["not_in_own", "not_anywhere"])
        table.insert(0, "analyzer", [analyzer_words(analyzer) for analyzer in counts])
        tables.draw(table, {str(name): word(f"tune.{name}") for name in table})
        with_some = [str(analyzer) for analyzer, rows in counts.items() if len(rows.without_relevant_match)]
        if not with_some:
            st.markdown(word("tune.all_matched"))
            return
        kwargs: dict[str, Any] = {"format_func": lambda value: analyzer_words(Analyzer(value)), "key": "lab_unmatched"}
        selected = st.segmented_control(word("tune.analyzer"), with_some, default=with_some[0], **kwargs)
        _draw_unmatched_questions(lab.opened.question_set, counts[Analyzer(selected or with_some[0])])


def _draw_unmatched_questions(question_set: QuestionSet, rows: UnmatchedQuestions) -> None:
    unmatched = question_set.with_questions(rows.without_relevant_match)
    passages = first_relevant_passages(unmatched)
    table = pd.DataFrame({"question": [question.text for question in unmatched.questions]})
    table["passage"] = [" · ".join(filter(None, (passage.title, passage.text))) for passage in passages]
    table["anywhere"] = ~np.isin(rows.without_relevant_match, rows.without_any_match)
    columns = {
        "question": tables.text("column.question", "", width="medium"),
        "passage": tables.text("tune.own_passage", width="large"),
        "anywhere": tables.checkbox("tune.in_others"),
    }
    tables.draw(table, columns)


def _choose_analyzers(key: str) -> list[Analyzer]:
    """Draw the choice of analyzers for a stored dataset; return them in the order of `Analyzer`."""
    suited = [analyzer.value for analyzer in analyzers_of(key)]
    others = (*LANGUAGE_INDEPENDENT, *sorted(LANGUAGE_SPECIFIC, key=analyzer_words))
    all_analyzers = list(dict.fromkeys([*suited, *(analyzer.value for analyzer in others)]))

    def draw_list(label: str, options: Sequence[str], *, selection_mode: str, **widget_kwargs: Any) -> list[str]:
        del selection_mode  # only pills have it
        return st.multiselect(label, options, **widget_kwargs)

    kwargs = {"format_func": lambda value: analyzer_words(Analyzer(value)), "help": word("tune.analyzers_help")}
    label = word("tune.analyzers")
    selected = choose_several(draw_list, "analyzers", label, all_analyzers, suited, key="lab_analyzers", **kwargs)
    return [analyzer for analyzer in Analyzer if analyzer.value in selected]


def _draw_readings(key: str) -> None:
    with st.expander(word("tune.readings"), icon=":material/segment:"):
        example = question_set(key).questions[0].text[:2000]
        kwargs: dict[str, Any] = {"max_chars": 2000, "height": 80, "help": word("tune.text_help"), "key": "lab_text"}
        text = st.text_area(word("tune.text"), example, **kwargs)
        with st.spinner(word("tune.reading")):
            tokens_of = readings(text, analyzers_of(key)[0])
        rows = [(analyzer_words(analyzer), len(tokens), tokens) for analyzer, tokens in tokens_of.items()]
        columns = {
            "analyzer": tables.text("tune.analyzer", width="medium", pinned=True),
            "count": tables.number("tune.token_count", width="small"),
            "tokens": st.column_config.ListColumn(word("tune.tokens"), width="large"),
        }
        tables.draw(pd.DataFrame(rows, columns=[*columns]), columns, row_height=44)


def _draw_layers(bench: Bench) -> None:
    container = st.container()
    present = bench.pick((LateSpec,), "tokens", "needs_late", help=word("tune.layers_help"))
    if not present:
        return
    labels = {layers.value: word(f"tune.layers_{layers.replace('-', '_')}") for layers in TokenLayers}
    tries = word("tune.tries", values=", ".join(labels.values()))
    with container:
        if lab := bench.run(labs.layers_lab(bench.experiment, present), tries):
            table = lab.table.assign(title=lab.table["layers"].map(str).map(labels))
            columns = {"title": tables.text("tune.layers", pinned=True)}
            columns |= bench.metric_columns() | bench.difference_columns("tune.gained")
            bench.draw_settings(lab, table, columns, present, key="layers_table", answer=st.container())


def _draw_hybrid(bench: Bench) -> None:
    names = bench.names()
    if len(names) < 2:
        st.info(word("tune.needs_two"), icon=":material/info:")
        return
    container = st.container()
    with st.container(border=True):
        left, right = st.columns(2)
        labels = retriever_names(names)
        kwargs: dict[str, Any] = {"format_func": lambda name: labels.get(name, name), "help": word("tune.mix_help")}
        default = (bench.names(BM25Spec) or names)[0]
        first = choose(left.selectbox, "mix_first", word("tune.mix_first"), names, default, follows=True, **kwargs)
        others = [name for name in names if name != first]
        default = next((name for name in bench.names(DenseSpec) if name != first), others[0])
        second = choose(right.selectbox, "mix_second", word("tune.mix_second"), others, default, follows=True, **kwargs)
    with container:
        tries = word("tune.tries_mixes", fusions=len(Fusion), weights=len(labs.FIRST_WEIGHTS))
        if lab := bench.run(labs.hybrid_lab(bench.experiment, first, second), tries):
            _draw_mixtures(bench, lab, first, second)


def _draw_mixtures(bench: Bench, lab: LabResult, first: str, second: str) -> None:
    table = lab.table.assign(x=lab.table["weight"])
    answer = st.container()
    x = word("tune.weight_of", name=retriever_name(first))
    y = bench.measure.long_name
    tables.draw_heading(word("tune.curve", metric=y))
    st.caption(word("tune.curve_help", first=plain(retriever_name(first)), second=plain(retriever_name(second))))
    kwargs: dict[str, Any] = {"detail": ("fusion", word("tune.fusion")), "names": [*map(str, Fusion)], "ordinal": False}
    draw_chart(bands, table, labs.best_setting_name(table), x=x, y=y, key="mix_curve", **kwargs)
    columns = {"fusion": tables.text("tune.fusion", pinned=True)}
    columns |= {"weight": tables.labelled_number(x, "%.2f"), **bench.metric_columns()}
    hybrids = [spec for spec in lab.experiment.retriever[2:] if isinstance(spec, HybridSpec) and not spec.selected_on]
    single = table[~table["is_variant"]]
    present = hybrids[0].name if hybrids else labs.best_setting_name(single) if len(single) else first
    bench.draw_settings(lab, table, columns, present, key="hybrid_table", answer=answer)


def _draw_reranking(bench: Bench) -> None:
    if not bench.names(RerankSpec):
        st.info(word("tune.needs_reranker"), icon=":material/info:")
        return
    container = st.container()
    with st.container(border=True):
        left, right = st.columns([2, 3])
        with left:
            present = bench.pick((RerankSpec,), "reranker")
        all_depths = [*map(str, labs.DEPTHS)]
        kwargs: dict[str, Any] = {"key": "lab_depths", "help": word("tune.depths_help")}
        selected = choose_several(right.pills, "depths", word("tune.depths"), all_depths, all_depths, **kwargs)
        depths = [*map(int, selected)]
        if depths:
            st.caption(word("tune.pairs", pairs=f"{bench.questions * max(depths):,}"))
    if not depths:
        st.info(word("tune.pick_values"), icon=":material/info:")
        return
    tries = word("tune.tries_depths", depths=", ".join(selected), weights=len(labs.RERANKER_WEIGHTS))
    with container:
        if lab := bench.run(labs.rerank_lab(bench.experiment, present, depths), tries):
            _draw_reranked(bench, lab, present)


def _draw_reranked(bench: Bench, lab: LabResult, present: str) -> None:
    table = lab.table.assign(milliseconds=lab.table["reranking_seconds"] / bench.questions * 1000)
    leader = labs.best_setting_name(table)
    answer = st.container()
    _draw_depths(bench, table[table["is_variant"]], leader)
    tables.draw_heading(word("tune.depth_and_weight", metric=bench.measure.long_name))
    kwargs: dict[str, Any] = {"x": ("weight", word("tune.weight")), "y": ("rerank_top_k", word("tune.depth"))}
    kwargs["bounds"] = (float(table["value"].min()), float(table["value"].max()))
    draw_chart(heat, table, leader, value=bench.measure.long_name, key="rerank_heat", **kwargs)
    columns = {
        "rerank_top_k": tables.number("tune.depth", explained_by="tune.depths_help", pinned=True),
        "weight": tables.number("tune.weight", "%.1f"),
        **bench.metric_columns(),
        "ceiling": tables.number("tune.ceiling"),
        "milliseconds": tables.number("tune.milliseconds", "%.1f"),
    }
    bench.draw_settings(lab, table, columns, present, key="rerank_table", answer=answer)


def _draw_depths(bench: Bench, table: pd.DataFrame, leader: str) -> None:
    ahead = table.loc[table.groupby("rerank_top_k")["value"].idxmax()].sort_values("rerank_top_k")
    ahead = ahead.assign(x=ahead["rerank_top_k"], label=ahead["rerank_top_k"].astype(str))
    names = [word("tune.best_weight"), word("tune.ceiling")]
    ceiling = dict.fromkeys(("value", "low", "high"), ahead["ceiling"])
    lines = pd.concat([ahead.assign(line=names[0]), ahead.assign(line=names[1], name="", **ceiling)])
    metric = bench.measure.long_name
    depth = word("tune.depth")
    left, right = st.columns(2)
    with left:
        tables.draw_heading(word("tune.by_depth", metric=metric))
        kwargs: dict[str, Any] = {"detail": ("line", ""), "names": names, "ordinal": True, "key": "rerank_depths"}
        draw_chart(bands, lines, leader, x=depth, y=metric, **kwargs)
    with right:
        tables.draw_heading(word("tune.by_time", metric=metric))
        costs = ahead.assign(x=ahead["milliseconds"], y=ahead["value"])
        kwargs = {"label": ("label", depth), "joined": True, "key": "rerank_costs"}
        draw_chart(against_cost, costs, x=word("tune.milliseconds"), y=metric, **kwargs)


def _draw_index(bench: Bench) -> None:
    container = st.container()
    present = bench.pick((DenseSpec,), "vectors", "needs_dense", "tune.vectors", help=word("tune.vectors_help"))
    if not present:
        return
    tries = word("tune.tries", values=", ".join(word(f"tune.index_{kind}") for kind in IndexKind))
    with container:
        lab = bench.run(labs.index_lab(bench.experiment, present), tries)
        if lab and "overlap" in lab.table:
            _draw_indexes(bench, lab)


def _draw_indexes(bench: Bench, lab: LabResult) -> None:
    exact = lab.table.set_index("name").loc[IndexKind.EXACT]
    table = lab.table.assign(title=[word(f"tune.index_{name}") for name in lab.table["name"]])
    table["milliseconds"] = table["search_seconds"] / bench.questions * 1000
    table["building"] = table["build_seconds"] - exact["build_seconds"]
    table["megabytes"] = table["memory_bytes"] / 1e6
    acceptable = table[table["difference_high"] >= 0]  # not significantly worse than the exact index
    smallest = str(acceptable.sort_values("memory_bytes", kind="stable")["name"].iloc[0])
    answer = st.container()
    overlap = word("tune.overlap", k=bench.measure.cutoff)
    about = word("tune.overlap_help", k=bench.measure.cutoff)
    costs = {"milliseconds": "search_time", "megabytes": "memory"}
    for container, (column, cost) in zip(st.columns(2), costs.items(), strict=True):
        with container:
            tables.draw_heading(word(f"tune.against_{cost}"))
            points = table.assign(x=table[column], y=table["overlap"])
            kwargs: dict[str, Any] = {"label": ("title", word("tune.index")), "joined": False, "key": f"by_{column}"}
            draw_chart(against_cost, points, x=word(f"tune.{cost}"), y=overlap, **kwargs)
    columns = {
        "title": tables.text("tune.index", pinned=True),
        **bench.metric_columns(),
        **bench.difference_columns("tune.lost"),
        "overlap": tables.labelled_number(overlap, about=about),
        "milliseconds": tables.number("tune.search_time", "%.3f"),
        "building": tables.number("tune.build_time", "%+.2f"),
        "megabytes": tables.number("tune.memory", "%.2f"),
    }
    kwargs = {"key": "index_table", "smallest_first": "memory_bytes"}
    name = bench.draw_table(lab, table, columns, smallest, **kwargs)
    with answer, st.container(border=True):
        rows: dict[str, dict[str, Any]] = table.set_index("name").to_dict("index")  # type: ignore[assignment]
        st.markdown(_index_text(bench.measure, rows[name], rows[IndexKind.EXACT], is_exact=name == IndexKind.EXACT))
        bench.draw_use(lab.experiment, name, recommended=name != IndexKind.EXACT)


def _index_text(measure: Measure, row: dict[str, Any], exact: dict[str, Any], *, is_exact: bool) -> str:
    values = signed_interval(row["difference"], row["difference_low"], row["difference_high"])
    for prefix, costs in (("", row), ("exact_", exact)):
        values[f"{prefix}megabytes"] = f"{costs['megabytes']:.3g}"
        values[f"{prefix}milliseconds"] = f"{costs['milliseconds']:.2g}"
    values["overlap"] = f"{row['overlap'] * 100:.1f}"
    key = "tune.index_is_exact" if is_exact else "tune.index_in_words"
    return word(key, index=row["title"], k=measure.cutoff, metric=measure.long_name, **values)


LABS: dict[LabKind, Callable[[Bench], None]] = {
    LabKind.BM25: _draw_values,
    LabKind.LEXICAL: draw_changes,
    LabKind.HYBRID: _draw_hybrid,
    LabKind.RERANK: _draw_reranking,
    LabKind.INDEX: _draw_index,
    LabKind.LAYERS: _draw_layers,
}
