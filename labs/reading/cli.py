"""`mrc reading`: score files of answers, and evaluate readers on retrieved passages."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
from cyclopts import Parameter

from mrc_workbench.data.commands import AsJson, commands_of, one_of, stop_message
from mrc_workbench.data.store import find
from mrc_workbench.data.terminal import aligned, end_progress_line, report_progress, tell
from mrc_workbench.labs.reading.evaluate import ReadingResult, evaluate, read_experiment
from mrc_workbench.labs.reading.labels import Property
from mrc_workbench.labs.reading.results import as_dict, save
from mrc_workbench.labs.reading.rules import Rules, read_predictions
from mrc_workbench.labs.reading.scores import FEWEST, compared, scored, slice_figures

commands = commands_of("reading", "Evaluate readers and score answers.")


@commands.command
def score(
    *,
    data: Annotated[str, Parameter(help="the questions: a path, or a name or key of the catalog or the workspace")],
    predictions: Annotated[
        tuple[Path, ...],
        Parameter(help='JSON of question ids and answers, as {"q1": "서울"}; one file for each reader'),
    ],
    rules: Annotated[Rules, one_of(Rules, help="rules that decide what is correct")] = Rules.KORQUAD,
    by_slice: Annotated[
        bool,
        Parameter(
            negative="",
            help="also score kinds of questions, answers and passages, with differences from the first file",
        ),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Score files of answers, one or several side by side.

    JSON has fractions from 0 to 1.
    """
    question_set = find(data)
    scores = {str(path): scored(question_set, read_predictions(path), rules) for path in predictions}
    tests = compared(question_set, scores)
    figures = {by: slice_figures(question_set, scores, by) for by in Property} if by_slice else {}
    if as_json:
        told: dict[str, Any] = {"rules": rules.value, "readers": {}, "differences": [asdict(test) for test in tests]}
        for name, one in scores.items():
            told["readers"][name] = {**one.means(), "interval": one.intervals, "unsaid": one.unsaid}
        if figures:
            told["slices"] = {by: _records(table) for by, table in figures.items()}
        tell(json.dumps(told, ensure_ascii=False, indent=2))
        return 0
    tell(f"{question_set.name}: {len(question_set.questions):,} questions, by the rules of {rules}")
    for name, one in scores.items():
        tell(name)
        for measure, mean in one.means().items():
            low, high = one.intervals.get(measure, (None, None))
            interval = "" if low is None or high is None else f"  95% {100 * low:.2f} to {100 * high:.2f}"
            tell(f"  {measure:<20} {100 * mean:6.2f}{interval}")
        if one.unsaid:
            tell(f"  {one.unsaid:,} questions have no answer in the file: wrong")
    for test in tests:
        ends = f"{100 * test.low:+.2f} to {100 * test.high:+.2f}, p {test.p_family:.4f}"
        sure = "sure" if test.sure else "not sure"
        tell(f"{test.measure}: {test.a} less {test.b} {100 * test.difference:+.2f} ({ends}, {sure})")
    for by, table in figures.items():
        tell(f"by {by}: slices of {FEWEST} questions and more, each interval alone, p of a measure's slices together")
        tell("\n".join(map(_slice_line, _records(table))))
    return 0


def _records(figures: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of `slice_figures` as JSON has them: what is not known is null."""
    known = figures.astype(object).where(figures.notna(), None)
    return [dict(zip(known.columns, row, strict=True)) for row in known.itertuples(index=False)]


def _slice_line(row: dict[str, Any]) -> str:
    mean, low, high = (f"{100 * row[name]:6.2f}" for name in ("mean", "low", "high"))
    line = (
        f"  {row['slice']:<14}{row['questions']:>7,}  {row['measure']:<7}{mean}  95% {low} to {high}  {row['reader']}"
    )
    if row["p_holm"] is None:
        return line
    apart, *ends = (f"{100 * row[name]:+.2f}" for name in ("difference", "difference_low", "difference_high"))
    return f"{line} {apart} ({' to '.join(ends)}, p {row['p_holm']:.4f})"


@commands.command(name="evaluate")
def evaluate_command(
    experiment: Annotated[
        Path, Parameter(help="experiment file (TOML): [[retriever]] as for a comparison, and [[reader]]")
    ],
    /,
    *,
    out: Annotated[Path | None, Parameter(help="folder for scores.json and the answers")] = None,
    as_json: AsJson = False,
) -> int:
    """Evaluate readers on the first passages of retrievers.

    JSON has fractions from 0 to 1.
    """
    asked, base = read_experiment(experiment), experiment.parent
    with stop_message("Stopped. Rankings and answers found so far are kept: run the same command again to continue."):
        result = evaluate(asked, find(asked.data, base), base=base, on_progress=report_progress)
    end_progress_line()
    tell(json.dumps(as_dict(result), ensure_ascii=False, indent=2) if as_json else table(result))
    tried: tuple[Any, ...] = (*result.comparison.results, *result.readers, *result.generators)
    failed = [one for one in tried if one.error]
    for one in failed:
        tell(f"{one.name} failed: {one.error}", error=True)
    if out:
        save(result, out)
    return int(bool(failed))


def table(result: ReadingResult) -> str:
    """Return exact match and overlap by depth as lines of text, in percent."""
    rules, told = result.experiment.rules, as_dict(result)
    lines = [f"{result.question_set.name}: {told['questions']:,} questions, by the rules of {rules}, em / overlap"]
    for reader in result.readers:
        if reader.error:
            continue
        oracle = told["oracles"][reader.name]
        lines.append(f"{reader.name}, with the right passage: {_cell(oracle, rules.overlap_name)}")
        ks, rows = result.experiment.depths_read, []
        for name, by_k in told["readers"][reader.name].items():
            rows.append((name, [_cell(by_k[str(k)], rules.overlap_name) for k in ks]))
            rows.append(("  holds it", [f"{100 * by_k[str(k)]['ceiling']:.2f}" for k in ks]))
        lines += aligned((f"first {k}" for k in ks), rows, 15)
    for name, by_retriever in told["generators"].items():
        for retriever, one in by_retriever.items() if "error" not in by_retriever else ():
            shares = _cell(one, rules.overlap_name) if "em" in one else "-"
            left = sum((len(one["failed"]), one["left"]))
            lines.append(f"{name} from {retriever}: {shares}, {one['answered']:,} answered, {left:,} not")
    return "\n".join(lines)


def _cell(shares: dict[str, float], overlap: str) -> str:
    return f"{100 * shares['em']:.2f} / {100 * shares[overlap]:.2f}"
