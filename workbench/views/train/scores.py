"""What a training gained, in sentences and as a table: the base, the trained model and BM25 on the same questions."""

from typing import Any

import pandas as pd
import streamlit as st

from mrc_workbench.data.split import Part
from mrc_workbench.training.recipes import ranking_kinds, recipe_of
from mrc_workbench.training.results import advice, curves
from mrc_workbench.training.runs import Plan, Run
from mrc_workbench.workbench.views.names import draw_few, leading_measure
from mrc_workbench.workbench.views.train.charts import best_by, measure_names
from mrc_workbench.workbench.views.ui import tables
from mrc_workbench.workbench.views.ui.words import plain, signed, word, word_or

_TESTED = ("before", "after", "bm25")  # on test questions, where these were asked
_WIDTH = 140  # pixels of a figure with its interval: the table fits beside the sidebar of a small screen
_TIMES_100 = ("spearman", "pearson", "accuracy")  # as the field writes them
Row = dict[str, float]


def draw_scores(run: Run, plan: Plan, scores: dict[str, Any]) -> None:
    """Draw what changed in sentences, and a table of the scores with their 95% intervals if known, the best bold."""
    if scores.get("interpolated"):
        order = ("interpolated", "bm25", "before", "after")  # of a reranker: first the mix, as it is used
    else:
        order = ("unigram", "before", "after", "bm25")
    rows = {name: scores[name] for name in order if isinstance(scores.get(name), dict)}
    if not {"before", "after"} <= set(rows):
        st.caption(word("train.no_scores"))
        return
    names = {of: name for of, name in measure_names(plan.kind).items() if any(of in row for row in rows.values())}
    judge = _judge(scores)
    asks_questions = judge in ("questions", "passages")
    leading = str(leading_measure())
    names = dict(sorted(names.items(), key=lambda item: item[0] != leading))  # its column comes first
    if judge == "pairs":  # the figures of their space are no shares
        names = {of: name for of, name in names.items() if of in _TIMES_100}
    measure = (scores.get("gain") or {}).get("measure", recipe_of(plan.kind).measure)  # older scores name no gain
    _draw_headline(names, rows, scores)
    if measure in names and measure in rows["before"].keys() & rows["after"].keys():
        _draw_sentences((measure, names[measure]), rows, scores)
        if asks_questions and (found := advice(plan, scores, curves(run, [measure]).points[measure])):
            st.info(word(f"advice.{found}"), icon=":material/lightbulb:")
    if "perplexity" in rows["after"]:
        known = ("unigram", "before", "after")
        values = {name: f"{rows[name]['perplexity']:,.0f}" if name in rows else "–" for name in known}
        st.markdown(word("train.perplexities", **values))
    if names:
        _draw_table(rows, scores, names, "train.row" if judge == "questions" else "train.row_model")
    by_question = scores.get("intervals") and asks_questions
    st.caption(_measured_on(plan, scores), help=word("train.intervals_help") if by_question else None)
    if scores.get("kept_step"):
        st.caption(_kept_step_text(scores, run, plan))
    if active := scores.get("active_terms"):
        st.caption(word("train.active_terms", **{side: f"{count:,.1f}" for side, count in active.items()}))


def _draw_headline(names: dict[str, str], rows: dict[str, Row], scores: dict[str, Any]) -> None:
    """Draw the measure before and after, and the difference with its 95% interval, in one line.

    Test questions, which selected nothing, go first; a reranker is judged by what it adds to BM25.
    """
    mixed = {"interpolated", "bm25"} <= rows.keys()
    test = {} if mixed else _of_test(scores)
    before, after = ("bm25", "interpolated") if mixed else ("before", "after")
    figures = test or rows
    gain = (test or scores).get("mixed_gain" if mixed else "gain") or {}
    measure = gain.get("measure", "")
    if measure not in names or not {before, after} <= figures.keys():
        return
    was, now = (_shown(figures[name][measure]) for name in (before, after))
    low, high = gain["interval"]
    about = {"measure": names[measure], "before": f"{was:.1f}", "after": f"{now:.1f}"}
    difference = {"difference": signed((now - was) / 100), "low": signed(low), "high": signed(high)}
    if about["before"] == about["after"]:
        st.markdown("#### " + word("train.headline_same", **about))
    else:
        st.markdown("#### " + word("train.headline_mixed" if mixed else "train.headline", **about, **difference))
    if questions := (test or scores).get("questions"):
        key = "train.headline_of_test" if test else "train.headline_of_validation"
        st.caption(word(key, questions=f"{questions:,}"))
    for part, measured in ((Part.VALIDATION, scores), (Part.TEST, test)):
        if questions := measured.get("questions"):
            draw_few(questions, part)


def _judge(scores: dict[str, Any]) -> str:
    """What judged a training, by what its scores count; of a reader, questions about passages that it reads."""
    counted = {"pairs": "pairs", "hidden": "text", "rules": "passages"}
    return next((judge for name, judge in counted.items() if name in scores), "questions")


def _of_test(scores: dict[str, Any]) -> dict[str, Any]:
    """Return the scores on test questions, empty if there are none."""
    return dict(scores.get("test") or {})


def _draw_sentences(names: tuple[str, str], rows: dict[str, Row], scores: dict[str, Any]) -> None:
    """Draw what changed, whether that is significant, and what changed on the training questions.

    Of a model that is mixed with BM25, the gain of the mix comes first and the model alone after it. Test questions,
    which selected nothing, come last.
    """
    measure, name = names
    if {"interpolated", "bm25"} <= rows.keys():
        st.markdown(_change("mixed", names, rows["bm25"], rows["interpolated"], gain=scores.get("mixed_gain")))
        before, after, bm25 = (_shown(rows[of][measure]) for of in ("before", "after", "bm25"))
        outcome = "same" if after == bm25 else "above" if after > bm25 else "below"
        st.markdown(word(f"train.alone_{outcome}", measure=name, before=before, after=after, bm25=bm25))
    else:
        text = _change("went", names, rows["before"], rows["after"], gain=scores.get("gain"))
        asks_questions = _judge(scores) in ("questions", "passages")
        if (asked := scores.get("questions")) and asks_questions:
            text = word("train.on_validation", questions=f"{asked:,}") + " " + text
        if (sample := scores.get("training_sample")) and asks_questions:
            text += " " + _change("learned", names, sample["before"], sample["after"], questions=sample["questions"])
        st.markdown(text)
    if test := _of_test(scores):
        asked, gain = test["questions"], test.get("gain")
        text = _change("tested", names, test["before"], test["after"], gain=gain, questions=asked)
        if "bm25" in test:
            text += " " + word("train.tested_bm25", bm25=_shown(test["bm25"][measure]))
        st.markdown(text, help=word("train.tested_help"))


def _change(
    what: str, names: tuple[str, str], before: Row, after: Row, *, gain: Any = None, questions: int | None = None
) -> str:
    """Return what changed, and whether that is significant unless it stayed the same."""
    measure, name = names
    was, now = _shown(before[measure]), _shown(after[measure])
    outcome = "same" if was == now else "up" if now > was else "down"
    about = {"measure": name, "before": was, "after": now, "points": f"{abs(now - was):.1f}"}
    asked = {} if questions is None else {"questions": f"{questions:,}"}
    text = word(f"train.{what}_{outcome}", **about, **asked)
    if was == now or not gain:
        return text
    low, high = gain["interval"]
    key = "train.gain_sure" if low > 0 or high < 0 else "train.gain_unsure"
    return f"{text} {word(key, low=signed(low), high=signed(high))}"


def _shown(share: float) -> float:
    return round(share * 100, 1)


def _draw_table(rows: dict[str, Row], scores: dict[str, Any], names: dict[str, str], heading: str) -> None:
    """Draw a table of measures: `rows`, and those on test questions if there are any.

    `heading` is the text key over the names of the rows. The cells stay numbers below their texts, so columns sort.
    """
    test = _of_test(scores)
    tested = {_tested(name): test[name] for name in _TESTED if name in test}
    intervals = {_tested(name): ends for name, ends in (test.get("intervals") or {}).items()}
    intervals = (scores.get("intervals") or {}) | intervals
    table = pd.DataFrame(rows | tested, index=list(names)).T * 100
    table.insert(0, "row", [_row_name(name, scores) for name in table.index])
    style = table.style.format("{:.2f}", subset=pd.IndexSlice[:, [*names]])
    for compared in filter(None, ([*rows], [*tested])):  # figures of other questions cannot be
        style = style.highlight_max(subset=pd.IndexSlice[compared, [*names]], props=tables.BOLD)
    for row in table.index:
        for measure, (low, high) in intervals.get(row, {}).items():
            if measure in names:
                text = f"{table.loc[row, measure]:.2f} [{low * 100:.1f}–{high * 100:.1f}]"
                style = tables.write(style, row, measure, text)
    width = _WIDTH if intervals else "small"
    columns = {of: tables.measure(of, label, width=width) for of, label in names.items()}
    tables.draw(style, {"row": tables.text(heading, width="medium"), **columns})


def _tested(name: str) -> str:
    return f"{name}_tested"


def _row_name(name: str, scores: dict[str, Any]) -> str:
    if name.endswith(_tested("")):
        return word("train.row_tested", row=word(f"train.row_{name.removesuffix(_tested(''))}"))
    if name == "interpolated":
        return word("train.row_interpolated", weight=f"{scores.get('weight', 0):g}")
    if scores.get("interpolated") and name in ("before", "after"):
        return word(f"train.row_{name}_alone")
    return word(f"train.row_{name}")


def _measured_on(plan: Plan, scores: dict[str, Any]) -> str:
    intervals, test, judge = scores.get("intervals") or {}, _of_test(scores), _judge(scores)
    questions = f"{scores.get('questions', 0):,}"
    if judge == "pairs":
        notes = [word("train.measured_on_pairs", pairs=f"{scores['pairs']:,}")]
    elif judge == "text":
        notes = [word("train.measured_on_text", hidden=f"{scores['hidden']:,}", rows=f"{scores['rows']:,}")]
    elif judge == "passages":
        rules = word_or(f"choice.rules_{scores['rules']}", str(scores["rules"]))
        notes = [word("train.measured_on_passages", questions=questions, rules=plain(rules))]
        if unanswerable := scores.get("unanswerable"):
            notes.append(word("train.measured_on_unanswerable", count=f"{unanswerable:,}"))
    else:
        notes = [word("train.measured_on", questions=questions)]
    if made := sum(scores.get("made_questions", {}).values()):
        notes.append(word("train.measured_on_made", made=f"{made:,}"))
    if intervals:
        notes.append(word("train.intervals_of_text" if judge == "text" else "train.intervals"))
        drawn = [*(scores.get(name, {}) for name in intervals), *(test.get(name, {}) for name in _TESTED)]
        if judge != "text" and {value for row in drawn for value in row.values()} & {0, 1}:
            notes.append(word("train.intervals_at_the_end"))
    if test:
        notes.append(word("train.measured_on_test", questions=f"{test['questions']:,}"))
    elif plan.kind in ranking_kinds() and plan.split.test:
        notes.append(word("train.not_tested", use=word("train.use")))
    if plan.options.reranked:
        notes.append(word("train.measured_reranked", depth=plan.options.reranked))
    return " ".join(notes)


def _kept_step_text(scores: dict[str, Any], run: Run, plan: Plan) -> str:
    steps = {"step": f"{scores['kept_step']:,}", "total": f"{run.status().total_steps:,}"}
    names, judge = measure_names(plan.kind), _judge(scores)
    measure = plan.options.best_by.value if judge == "text" else best_by(run, plan)
    if scores.get("judged_by") == "loss":
        return word("train.kept_step_loss", **steps)
    if judge == "text" and measure not in names:
        return word("train.kept_step_perplexity", **steps)
    of = f"_{judge}" if judge in ("text", "pairs") else ""
    return word(f"train.kept_step{of}", **steps, measure=names[measure])
