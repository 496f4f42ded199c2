"""Jobs of several trainings: the results of a settings search and of an ablation, as text, chart and table."""

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st

from mrc_workbench.data.store import stored
from mrc_workbench.retrieval.comparison.experiment import write_experiment
from mrc_workbench.retrieval.comparison.first_stage import DenseSpec
from mrc_workbench.retrieval.comparison.multistage import BM25_NAME
from mrc_workbench.retrieval.measures import Measure
from mrc_workbench.retrieval.report.charts import PALETTE, TEXT_COLOUR
from mrc_workbench.retrieval.significance import Interval
from mrc_workbench.training import jobs
from mrc_workbench.training.ablation import AblationExperiment
from mrc_workbench.training.runs import Run, TrainingPlan, find_run
from mrc_workbench.workbench.views.choices import choices_for, model_reference
from mrc_workbench.workbench.views.names import experiment_of, is_varied, kind_name, run_name
from mrc_workbench.workbench.views.navigation import open_page
from mrc_workbench.workbench.views.resources.sets import use_set
from mrc_workbench.workbench.views.train.cards import draw_parts
from mrc_workbench.workbench.views.train.fields import fill_in_settings
from mrc_workbench.workbench.views.ui import charts, tables, words
from mrc_workbench.workbench.views.ui.charts import draw_chart, interval_tooltips, tooltips
from mrc_workbench.workbench.views.ui.words import label_and_help, plain, signed_interval, word, word_or

_COLOUR = PALETTE[0]
_PERPLEXITY = "perplexity"  # not a fraction, and lower is better
_OF_HIDDEN_TOKENS = (_PERPLEXITY, "masked_accuracy")  # comparable only if the same tokens are hidden
_DECIDING = ("ndcg@10", "spearman", "spearman_before")  # the first available measure decides which variant is best
_OTHERS = "°"  # marks scores on other hidden tokens


def draw_ablation(ablation: jobs.Ablation, *, is_running: bool = False) -> None:
    plan = ablation.plan()
    table = ablation.table
    varied = is_varied(plan)
    if is_running:
        st.caption(word("ablation.goes_on"))
    elif ablation.done and table:
        for conclusion in _conclusions(table, varied=varied):
            st.markdown(conclusion)
    if table and table.measures:
        _draw_table(table, ablation.id, varied=varied)
    variants = table.variants if table else ()
    for variant in variants:
        if variant.code:
            st.markdown(word("ablation.failed", name=plain(_variant_name(variant, varied=varied))))
            words.draw_training_failure(variant.code, variant.message, plan.options.base)
    names = [name for variant in variants for name in (variant.model, variant.fine_tuned_run)]
    reused = [run for name in names if name and (run := find_run(name))]
    parts = list(dict.fromkeys([*reused, *ablation.parts()]))

    def part_name(run: Run) -> str:
        plan = run.plan()
        is_untrained = plan.trial is not None and plan.trial.is_complete and plan.trial.number == jobs.UNTRAINED
        return f"{word('ablation.untrained') if is_untrained else run_name(plan)} · {kind_name(plan.kind)}"

    draw_parts(ablation, parts, word("ablation.trainings", count=len(parts)), part_name)


def draw_ablation_buttons(ablation: jobs.Ablation) -> None:
    table = ablation.table
    experiment = experiment_of(ablation.plan())
    if ablation.done and table:
        runs = [find_run(variant.fine_tuned_run) for variant in table.variants if variant.fine_tuned_run]
        if tuned := [run for run in runs if run]:
            _draw_compare_button(ablation, tuned)
        tables.draw_csv("ablation.csv", lambda: as_table(table), f"{ablation.id}.csv", f"csv_{ablation.id}")
    if experiment:
        draw_experiment_file(experiment, f"{ablation.id}.toml", f"file_{ablation.id}")


def draw_experiment_file(experiment: AblationExperiment, file_name: str, key: str) -> None:
    tables.draw_file("ablation.file", write_experiment(experiment), file_name, "application/toml", key)


def _draw_compare_button(ablation: jobs.Ablation, tuned: list[Run]) -> None:
    fingerprint = tuned[0].plan().fingerprint
    data = next((dataset for dataset in stored() if dataset.fingerprint == fingerprint), None)
    help_text = word("ablation.compare_help" if data else "train.use_no_data")
    kwargs: dict[str, Any] = {"icon": ":material/leaderboard:", "help": help_text, "disabled": data is None}
    if st.button(word("ablation.compare"), key=f"compare_{ablation.id}", **kwargs) and data:
        use_set(data.key)
        models = {model_reference(run) for run in tuned}
        specs = choices_for(data).specs.values()
        names = [BM25_NAME, *(spec.name for spec in specs if isinstance(spec, DenseSpec) and spec.model in models)]
        open_page("compare", data=data.key, retrievers="|".join(names), part="test", lang=words.language())


def as_table(table: jobs.AblationTable) -> pd.DataFrame:
    """Return a row for each variant: scores from 0 to 1 and differences to the reference."""
    rows: list[dict[str, Any]] = []
    for variant in table.variants:
        changed = ", ".join(f"{name} = {value}" for name, value in variant.changed_options.items())
        row: dict[str, Any] = {"variant": variant.number, "same_hidden_tokens": variant.is_comparable}
        row |= {"failed": variant.code, "changed": changed}
        for name in table.measures:
            if score := _score(variant, name):
                row |= {name: score.value, f"{name}_low": score.low, f"{name}_high": score.high}
            if difference := _difference(variant, name):
                row |= {f"{name}_difference_{end}": value for end, value in difference._asdict().items()}
        rows.append(row)
    return pd.DataFrame(rows)


def _score(variant: jobs.Variant, measure: str) -> Interval | None:
    return (variant.metrics or {}).get(measure)


def _difference(variant: jobs.Variant, measure: str) -> jobs.VariantDifference | None:
    return (variant.differences or {}).get(measure)


def _variant_name(variant: jobs.Variant, *, varied: bool) -> str:
    """Return the name of a variant as plain text; unless `varied`, the variants are with and without training."""
    if variant.number == jobs.UNTRAINED:
        return word("ablation.untrained")
    if variant.number == jobs.REFERENCE:
        return word("ablation.reference" if varied else "ablation.trained")
    return setting_words(variant.changed_options)


def _measure_words(name: str, about: str = "measure") -> str:
    return word(f"ablation.{about}_{name.partition('@')[0]}")


def _display_value(name: str, value: float) -> float:
    return value if name == _PERPLEXITY else 100 * value


def _score_text(name: str, value: float) -> str:
    return f"{_display_value(name, value):,.1f}"


def _is_comparable(variant: jobs.Variant, measure: str) -> bool:
    return variant.is_comparable or measure not in _OF_HIDDEN_TOKENS


def _conclusions(table: jobs.AblationTable, *, varied: bool) -> list[str]:
    """Return, as Markdown, the best variant and the gain of the training, each if it was evaluated."""
    measure = next((name for name in _DECIDING if name in table.measures), None)
    known = {variant.number: variant for variant in table.variants}
    if measure is None or jobs.REFERENCE not in known or not (reference := _score(known[jobs.REFERENCE], measure)):
        return [word("ablation.nothing_judges")]
    measured = [(variant, score) for variant in table.variants if (score := _score(variant, measure))]
    rivals = [(variant, score) for variant, score in measured if variant.number != jobs.UNTRAINED]
    conclusions = [_best_words(rivals, reference, measure)] if varied and len(rivals) > 1 else []
    base = known.get(jobs.UNTRAINED)
    if base and (tested := _difference(base, measure)):
        # the stored difference is that of the base to the reference
        gain = (-tested.value, -tested.high, -tested.low)
        key = "helped" if tested.high < 0 else "harmed" if tested.low > 0 else "unsure"
        values = {"score": reference.value, "without": (base.metrics or {})[measure].value}
        texts = {name: _score_text(measure, value) for name, value in values.items()}
        conclusions.append(word(f"ablation.{key}", measure=_measure_words(measure), **texts, **signed_interval(*gain)))
    return conclusions


def _best_words(rivals: list[tuple[jobs.Variant, Interval]], reference: Interval, measure: str) -> str:
    best, score = max(rivals, key=lambda rival: (rival[1].value, rival[0].number == jobs.REFERENCE))
    values = {"measure": _measure_words(measure), "score": _score_text(measure, score.value)}
    tested = _difference(best, measure)
    if best.number == jobs.REFERENCE or tested is None:
        return word("ablation.reference_best", **values)
    values |= {"name": plain(_variant_name(best, varied=True)), "reference": _score_text(measure, reference.value)}
    return word("ablation.best" if tested.low > 0 else "ablation.best_unsure", **values, **signed_interval(*tested[:3]))


def _draw_table(table: jobs.AblationTable, key: str, *, varied: bool) -> None:
    measures = table.measures
    key = f"ablation_measure_{key}_{len(measures)}"  # more of them are known at the end
    kwargs: dict[str, Any] = {"format_func": _measure_words, "required": True, "label_visibility": "collapsed"}
    measure = str(st.pills(word("ablation.measure"), measures, default=measures[-1], key=key, **kwargs) or measures[-1])
    rows = [
        {
            "variant": _variant_name(variant, varied=varied),
            "reference": variant.number == jobs.REFERENCE,
            "alike": _is_comparable(variant, measure),
            **{end: _display_value(measure, value) for end, value in score._asdict().items()},
        }
        for variant in table.variants
        if (score := _score(variant, measure))
    ]
    if rows:
        draw_chart(variants_chart, pd.DataFrame(rows), x=_measure_words(measure), y=word("ablation.variant"))
    _draw_numbers(table, measure, varied=varied)
    st.caption(" ".join(_notes(table, measure, varied=varied)))


def variants_chart(table: pd.DataFrame, *, x: str, y: str) -> alt.LayerChart:
    """A row per "variant": "value", "low" to "high", hollow unless "alike"; a dashed line at the "reference"."""
    base = alt.Chart(table).encode(
        y=alt.Y("variant:N", sort=None, title=None, axis=alt.Axis(labelLimit=170)),
        tooltip=[*tooltips(("variant:N", y)), *interval_tooltips("value", x, ",.2f")],
    )
    scale = alt.Scale(zero=False, padding=12)
    whole = alt.X("value:Q", title=x, scale=scale, axis=alt.Axis(tickCount=5))
    line = alt.Chart(table[table["reference"]]).mark_rule(color=TEXT_COLOUR, strokeDash=[5, 4], strokeWidth=1.5)
    intervals = base.mark_rule(strokeWidth=3, color=_COLOUR).encode(x=alt.X("low:Q", title=x, scale=scale), x2="high:Q")
    fill = alt.condition("datum.alike", alt.value(_COLOUR), alt.value("white"))
    marks = base.mark_point(size=110, opacity=1, strokeWidth=2, stroke=_COLOUR).encode(x=whole, fill=fill)
    described = charts.describe(x, charts.intervals(table, "variant", "value", ".2f"))
    return (line.encode(x=whole) + intervals + marks).properties(height=80 + 36 * len(table), description=described)


def _draw_numbers(table: jobs.AblationTable, measure: str, *, varied: bool) -> None:
    """Draw the table; cells stay numbers, so that columns sort."""
    tests = [_difference(variant, measure) for variant in table.variants]
    rows: list[dict[str, Any]] = []
    for variant, tested in zip(table.variants, tests, strict=True):
        row = {name: _display_value(name, score.value) for name in table.measures if (score := _score(variant, name))}
        difference = {"difference": 100 * tested.value, "p": tested.p} if tested else {}
        rows.append({"variant": _variant_name(variant, varied=varied), **row, **difference})
    numbers = pd.DataFrame(rows, columns=["variant", *table.measures, "difference", "p"])
    style = numbers.style.format("{:.4f}", subset=["p"], na_rep="")
    best = {name: _best_number(table, name) for name in table.measures}
    for row_index, (variant, tested) in enumerate(zip(table.variants, tests, strict=True)):
        for name in table.measures:
            cell = ""
            if score := _score(variant, name):
                value, low, high = (_score_text(name, end) for end in score)
                cell = f"{value} [{low}–{high}]{'' if _is_comparable(variant, name) else f' {_OTHERS}'}"
            style = tables.write(style, row_index, name, cell)
            if variant.number == best[name]:
                style = style.map(lambda _: tables.BOLD, subset=pd.IndexSlice[[row_index], [name]])
        style = tables.write(style, row_index, "difference", _difference_text(*tested[:3]) if tested else "")
    measured = {
        name: st.column_config.NumberColumn(_measure_words(name), help=_measure_words(name, "help"), width=155)
        for name in (measure, *table.measures)
    }
    columns = {"variant": tables.text("ablation.variant", pinned=True, width=150), measure: measured.pop(measure)}
    if any(tests):
        columns["difference"] = tables.number("ablation.difference", width=125)
        columns["p"] = tables.number("ablation.p", "%.4f", width=60)
    tables.draw(style, columns | measured, placeholder="–")


def _difference_text(difference: float, low: float, high: float) -> str:
    return "{points} [{low}, {high}]".format(**signed_interval(difference, low, high))


def _best_number(table: jobs.AblationTable, name: str) -> int:
    comparable = [variant for variant in table.variants if _is_comparable(variant, name)]
    known = {variant.number: score.value for variant in comparable if (score := _score(variant, name))}
    sign = -1 if name == _PERPLEXITY else 1
    return max(known, key=lambda number: sign * known[number], default=-1)


def _notes(table: jobs.AblationTable, measure: str, *, varied: bool) -> list[str]:
    notes = [word("ablation.dashed", name=_variant_name(jobs.Variant(jobs.REFERENCE, {}), varied=varied))]
    if varied and any(_difference(variant, measure) for variant in table.variants):
        notes.append(word("ablation.tested_together"))
    others = [variant for variant in table.variants if not variant.is_comparable]
    if any(_score(variant, name) for variant in others for name in _OF_HIDDEN_TOKENS):
        notes.append(word("ablation.other_tokens", mark=_OTHERS))
    judges = [word("ablation.questions", count=f"{table.questions:,}")] if table.questions else []
    judges += [word("ablation.pairs", count=f"{table.pairs:,}")] if table.pairs else []
    if judges:
        notes.append(word("ablation.judged_on", judges=" · ".join(judges)))
    return [*notes, word("ablation.intervals_of")]


def draw_search(search: jobs.SettingsSearch, *, is_running: bool = False) -> None:
    """Draw the results of a search so far, its trials, and at its end a button that fills them into the form."""
    findings = search.outcome
    plan = search.plan()
    if is_running:
        st.caption(word("settings.minutes_at_most", minutes=f"{plan.minutes:g}"))
    if findings:
        is_complete = search.done and not is_running
        if is_complete:
            _draw_conclusion(findings)
        _draw_findings(plan, findings)
        if is_complete:
            kwargs: dict[str, Any] = {"icon": ":material/check:", "key": f"use_settings_{search.id}"}
            st.button(**label_and_help("settings.use"), on_click=fill_in_settings, args=(plan, findings), **kwargs)
    trials = search.parts()
    draw_parts(search, trials, word("settings.trials", count=len(trials)), lambda run: run_name(run.plan()))


def setting_words(changes: Mapping[str, Any]) -> str:
    settings = []
    for name, value in changes.items():
        label = "" if name == "objective" else f"{word_or(f'option.{name}', name)}: "  # an objective needs no label
        settings.append(label + value_words(name, value))
    return ", ".join(settings) or word("settings.defaults")


def value_words(name: str, value: Any) -> str:
    if name == "objective":
        return word_or(f"objective.{value}", str(value))
    number = f"{value:.10f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return word_or(f"choice.{name}_{value}", number)


def _draw_conclusion(findings: jobs.SettingsSearchResult) -> None:
    values = {"measure": Measure.parse(findings.measure).long_name}
    if findings.best == jobs.DEFAULTS:
        st.markdown(word("settings.defaults_best", **values))
        return
    best = next(trial for trial in findings.trials if trial.number == findings.best)
    values |= signed_interval(best.difference, best.difference_low, best.difference_high)
    key = "settings.better" if findings.selected != jobs.DEFAULTS else "settings.alike"
    st.markdown(word(key, setting=plain(setting_words(best.changed_options)), **values))


def _draw_findings(plan: TrainingPlan, findings: jobs.SettingsSearchResult) -> None:
    """Draw a row per trial, the longest trained first; cells stay numbers, so that columns sort."""
    measure = Measure.parse(findings.measure).long_name
    tried = sorted(findings.trials, key=lambda trial: (-trial.fraction, trial.number != jobs.DEFAULTS, -trial.value))
    table = pd.DataFrame(map(vars, tried)).rename(columns={"p_family": "p"})
    table["chosen"] = ["✓" if trial.number == findings.selected else "" for trial in tried]
    table["setting"] = [setting_words(trial.changed_options) for trial in tried]
    columns = {
        "chosen": tables.text("settings.chosen", width=45),
        "setting": tables.text("settings.setting", width=250),
        "value": tables.measure(findings.measure, measure, width=130),
        "difference": tables.number("settings.difference", width=130),
        "p": tables.number("settings.p", "%.4f"),
        "epochs": tables.number("settings.epochs", width=55),
        "steps": tables.number("settings.steps", width=50),
        "loss": tables.number("settings.loss", width=65),
    }
    style = table[[*columns]].style.format({"epochs": "{:.2f}", "p": "{:.4f}", "loss": "{:.4f}"}, na_rep="")
    for row_index, trial in enumerate(tried):
        texts = {
            "value": f"{100 * trial.value:.2f} [{100 * trial.low:.1f}–{100 * trial.high:.1f}]",
            "difference": _difference_text(trial.difference, trial.difference_low, trial.difference_high),
        }
        if trial.number == jobs.DEFAULTS:  # the baseline of the differences
            texts |= {"difference": "", "p": ""}
        for column, text in texts.items():
            style = tables.write(style, row_index, column, text)
        if trial.number == findings.selected:
            style = style.map(lambda _: tables.BOLD, subset=pd.IndexSlice[[row_index], :])
    tables.draw(style, columns)
    values = {"questions": f"{findings.questions:,}", "measure": measure}
    notes = [word("settings.measured_on", **values, untrained=f"{100 * findings.untrained:.2f}")]
    for key, numbers in (("settings.failed", findings.failed), ("settings.untried", findings.skipped)):
        if numbers:
            notes.append(word(key, numbers=", ".join(map(str, numbers))))
    if plan.options.rerank_depth:
        notes.append(word("train.measured_reranked", depth=plan.options.rerank_depth))
    st.caption(" ".join(notes))
