"""What a training gained, in sentences and as a table: the base, the trained model and BM25 on the same questions."""

from typing import Any

import pandas as pd
import streamlit as st

from training.recipe import ranking_kinds, recipe_of
from training.runs.curves import advice, curves
from training.runs.runs import Plan, Run
from views.runs.charts import best_by, measure_names
from views.ui import tables
from views.ui.words import plain, signed, word, word_or

TESTED = ("before", "after", "bm25")  # on test questions, where these were asked
_WIDTH = 140  # pixels of a figure with its interval: the table fits beside the sidebar of a small screen
_ROWS = ("unigram", "before", "after", "bm25")
_MIXED_ROWS = ("interpolated", "bm25", "before", "after")  # of a reranker: first what is used of it
_TIMES_100 = ("spearman", "pearson", "accuracy")  # as the field writes them


def draw_table(rows: dict[str, dict[str, float]], scores: dict[str, Any], names: dict[str, str], heading: str) -> None:
    """Draw the table of the measures named: `rows`, on what judges a training, and those on test questions if asked.

    `heading` is the key of the words over the names of the rows.
    """
    test, intervals = of_test(scores), _intervals(scores)
    every = rows | {_tested(name): test[name] for name in TESTED if name in test}
    table = pd.DataFrame(every, index=list(names)).T * 100
    table.insert(0, "row", [_row_name(name, scores) for name in every])
    width = _WIDTH if intervals else "small"
    columns = {of: tables.measure(of, label, width=width) for of, label in names.items()}
    compared = [list(rows), [name for name in every if name not in rows]]  # figures of other questions cannot be
    written = _written(table, intervals, list(names), compared)
    tables.draw(written, {"row": tables.text(heading, width="medium"), **columns})


def of_test(scores: dict[str, Any]) -> dict[str, Any]:
    """Return what was measured on test questions; empty where nothing was."""
    test: dict[str, Any] = scores.get("test") or {}
    return test


def _written(table: pd.DataFrame, intervals: dict[str, Any], measures: list[str], compared: list[list[str]]) -> Any:
    """The table as it is read; underneath, figures stay numbers, so that columns sort by them."""
    style = table.style.format("{:.2f}", subset=pd.IndexSlice[:, measures])
    for rows in filter(None, compared):
        style = style.highlight_max(subset=pd.IndexSlice[rows, measures], props=tables.BOLD)
    for row in table.index:
        for measure, (low, high) in intervals.get(row, {}).items():
            if measure in measures:
                text = f"{table.loc[row, measure]:.2f} [{low * 100:.1f}–{high * 100:.1f}]"
                style = tables.write(style, row, measure, text)
    return style


def _row_name(name: str, scores: dict[str, Any]) -> str:
    if name.endswith(_tested("")):
        return word("train.row_tested", row=word(f"train.row_{name.removesuffix(_tested(''))}"))
    if name == "interpolated":
        return word("train.row_interpolated", weight=f"{scores.get('weight', 0):g}")
    if scores.get("interpolated") and name in ("before", "after"):
        return word(f"train.row_{name}_alone")
    return word(f"train.row_{name}")


def _intervals(scores: dict[str, Any]) -> dict[str, Any]:
    """Those of every row of the table."""
    tested = of_test(scores).get("intervals") or {}
    return (scores.get("intervals") or {}) | {_tested(name): ends for name, ends in tested.items()}


def _tested(name: str) -> str:
    return f"{name}_tested"


def draw_scores(run: Run, plan: Plan, scores: dict[str, Any]) -> None:
    """Draw what changed in sentences, and the table: figures with their 95% intervals where known, the best bold."""
    order = _MIXED_ROWS if scores.get("interpolated") else _ROWS
    rows = {name: scores[name] for name in order if isinstance(scores.get(name), dict)}
    if not {"before", "after"} <= set(rows):
        st.caption(word("train.no_scores"))
        return
    names = {of: name for of, name in measure_names(plan.kind).items() if any(of in row for row in rows.values())}
    if _of_pairs(scores):  # the figures of their space are no shares
        names = {of: name for of, name in names.items() if of in _TIMES_100}
    gain = scores.get("gain") or {}
    measure = gain.get("measure", recipe_of(plan.kind).measure)  # older scores name no gain
    if measure in names and measure in rows["before"].keys() & rows["after"].keys():
        if {"interpolated", "bm25"} <= rows.keys():
            _mixed_sentences(names[measure], measure, rows, scores)
        else:
            _sentences(names[measure], measure, rows, scores)
        _test_sentence(names[measure], measure, scores)
        if _asks_questions(scores) and (found := advice(plan, scores, curves(run, [measure]).points[measure])):
            st.info(word(f"advice.{found}"), icon=":material/lightbulb:")
    intervals = scores.get("intervals") or {}
    if "perplexity" in rows["after"]:
        st.markdown(_perplexities(rows))
    if names:
        is_ranking = _asks_questions(scores) and not _of_passages(scores)
        draw_table(rows, scores, names, "train.row" if is_ranking else "train.row_model")
    by_question = bool(intervals) and _asks_questions(scores)
    st.caption(_measured_on(plan, scores, intervals), help=word("train.intervals_help") if by_question else None)
    if kept := scores.get("kept_step"):
        steps = {"step": f"{kept:,}", "total": f"{run.status().total_steps:,}"}
        chosen_by = plan.options.best_by.value if _of_text(scores) else best_by(run, plan)
        st.caption(_kept_words(steps, scores, chosen_by, plan.kind))
    if active := scores.get("active_terms"):
        st.caption(word("train.active_terms", **{side: f"{count:,.1f}" for side, count in active.items()}))


def _sentences(name: str, measure: str, rows: dict[str, dict[str, float]], scores: dict[str, Any]) -> None:
    """Say what changed, whether the questions were enough to be sure of it, and what changed where it learned."""
    text = _change("went", name, measure, rows["before"], rows["after"])
    if (asked := scores.get("questions")) and _asks_questions(scores):
        text = word("train.on_validation", questions=f"{asked:,}") + " " + text
    if _differ(rows["before"], rows["after"], measure):
        text += _surely(scores.get("gain"))
    if (sample := scores.get("training_sample")) and _asks_questions(scores):
        learned = _change("learned", name, measure, sample["before"], sample["after"], questions=sample["questions"])
        text += " " + learned
    st.markdown(text)


def _mixed_sentences(name: str, measure: str, rows: dict[str, dict[str, float]], scores: dict[str, Any]) -> None:
    """Say what BM25 gains where the model is mixed in, as it is used, and only then what the model is by itself."""
    text = _change("mixed", name, measure, rows["bm25"], rows["interpolated"])
    if _differ(rows["bm25"], rows["interpolated"], measure):
        text += _surely(scores.get("mixed_gain"))
    st.markdown(text)
    before, after, bm25 = (_shown(rows[of][measure]) for of in ("before", "after", "bm25"))
    outcome = "same" if after == bm25 else "above" if after > bm25 else "below"
    st.markdown(word(f"train.alone_{outcome}", measure=name, before=before, after=after, bm25=bm25))


def _test_sentence(name: str, measure: str, scores: dict[str, Any]) -> None:
    """Say what changed on test questions, which chose nothing."""
    test = of_test(scores)
    if not test:
        return
    text = _change("tested", name, measure, test["before"], test["after"], questions=test["questions"])
    if _differ(test["before"], test["after"], measure):
        text += _surely(test.get("gain"))
    if "bm25" in test:
        text += " " + word("train.tested_bm25", bm25=_shown(test["bm25"][measure]))
    st.markdown(text, help=word("train.tested_help"))


def _surely(gain: dict[str, Any] | None) -> str:
    if not gain:
        return ""
    low, high = gain["interval"]
    sure = low > 0 or high < 0
    return " " + word(f"train.gain_{'sure' if sure else 'unsure'}", low=signed(low), high=signed(high))


def _change(
    what: str,
    name: str,
    measure: str,
    before: dict[str, float],
    after: dict[str, float],
    *,
    questions: int | None = None,
) -> str:
    was, now = _shown(before[measure]), _shown(after[measure])
    outcome = "same" if was == now else "up" if now > was else "down"
    about = {"measure": name, "before": was, "after": now, "points": f"{abs(now - was):.1f}"}
    return word(f"train.{what}_{outcome}", **about, **({} if questions is None else {"questions": f"{questions:,}"}))


def _shown(share: float) -> float:
    return round(share * 100, 1)


def _differ(before: dict[str, float], after: dict[str, float], measure: str) -> bool:
    """Whether they do as they are shown: what is said to have stayed is no difference to be sure of."""
    return _shown(before[measure]) != _shown(after[measure])


def _perplexities(rows: dict[str, dict[str, float]]) -> str:
    told = {
        name: f"{rows[name]['perplexity']:,.0f}" if name in rows else "–" for name in ("unigram", "before", "after")
    }
    return word("train.perplexities", **told)


def _measured_on(plan: Plan, scores: dict[str, Any], intervals: dict[str, Any]) -> str:
    if _of_pairs(scores):
        text = word("train.measured_on_pairs", pairs=f"{scores['pairs']:,}")
    elif _of_text(scores):
        text = word("train.measured_on_text", hidden=f"{scores['hidden']:,}", rows=f"{scores['rows']:,}")
    elif _of_passages(scores):
        rules = word_or(f"choice.rules_{scores['rules']}", str(scores["rules"]))
        text = word("train.measured_on_passages", questions=f"{scores.get('questions', 0):,}", rules=plain(rules))
        if unanswerable := scores.get("unanswerable"):
            text += " " + word("train.measured_on_unanswerable", count=f"{unanswerable:,}")
    else:
        text = word("train.measured_on", questions=f"{scores.get('questions', 0):,}")
    if made := sum(scores.get("made_questions", {}).values()):
        text += " " + word("train.measured_on_made", made=f"{made:,}")
    if intervals:
        text += " " + word("train.intervals_of_text" if _of_text(scores) else "train.intervals")
        drawn = [*(scores.get(name, {}) for name in intervals), *(of_test(scores).get(name, {}) for name in TESTED)]
        figures = {value for row in drawn for value in row.values()}
        if not _of_text(scores) and figures & {0, 1}:
            text += " " + word("train.intervals_at_the_end")
    if test := of_test(scores):
        text += " " + word("train.measured_on_test", questions=f"{test['questions']:,}")
    elif plan.kind in ranking_kinds() and plan.split.test:
        text += " " + word("train.not_tested", use=word("train.use"))
    if plan.options.reranked:
        text += " " + word("train.measured_reranked", depth=plan.options.reranked)
    return text


def _of_pairs(scores: dict[str, Any]) -> bool:
    return "pairs" in scores


def _of_text(scores: dict[str, Any]) -> bool:
    return "hidden" in scores


def _asks_questions(scores: dict[str, Any]) -> bool:
    return not (_of_pairs(scores) or _of_text(scores))


def _of_passages(scores: dict[str, Any]) -> bool:
    return "rules" in scores


def _kept_words(steps: dict[str, str], scores: dict[str, Any], measure: str, kind: str) -> str:
    if scores.get("judged_by") == "loss":
        return word("train.kept_step_loss", **steps)
    if _of_text(scores) and measure not in measure_names(kind):
        return word("train.kept_step_perplexity", **steps)
    of = "_text" if _of_text(scores) else "_pairs" if _of_pairs(scores) else ""
    return word(f"train.kept_step{of}", **steps, measure=measure_names(kind)[measure])
