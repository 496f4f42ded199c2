"""`python -m reading evaluate EXPERIMENT.toml --out DIR`: answers from what every retriever finds."""

import json
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from data.commands import AsJson
from data.store import find
from data.terminal import tell, tell_progress
from reading.evaluate import ReadingResult, evaluate
from reading.experiment import read_experiment
from reading.results import as_dict, save


def evaluate_command(
    experiment: Annotated[
        Path, Parameter(help="experiment file (TOML): [[retriever]] as for a comparison, and [[reader]]")
    ],
    /,
    *,
    out: Annotated[Path | None, Parameter(help="folder for scores.json and for the answers")] = None,
    as_json: AsJson = False,
) -> int:
    """Let readers answer from the first passages that retrievers find: as JSON, shares from 0 to 1."""
    asked, base = read_experiment(experiment), experiment.parent
    result = evaluate(asked, find(asked.data, base), base=base, on_progress=tell_progress)
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
        width = max(map(len, reader.by_retriever), default=0)
        ks = result.experiment.depths_read
        lines.append(" ".join([" " * width, *(f"{f'first {k}':>15}" for k in ks)]))
        for name, by_k in told["readers"][reader.name].items():
            cells = (f"{_cell(by_k[str(k)], rules.overlap_name):>15}" for k in ks)
            lines.append(" ".join([f"{name:<{width}}", *cells]))
            ceilings = (f"{100 * by_k[str(k)]['ceiling']:>15.2f}" for k in ks)
            lines.append(" ".join([f"{'  holds it':<{width}}", *ceilings]))
    for name, by_retriever in told["generators"].items():
        for retriever, one in by_retriever.items() if "error" not in by_retriever else ():
            shares = _cell(one, rules.overlap_name) if "em" in one else "-"
            left = sum((len(one["failed"]), one["left"]))
            lines.append(f"{name} from {retriever}: {shares}, {one['answered']:,} answered, {left:,} not")
    return "\n".join(lines)


def _cell(shares: dict[str, float], overlap: str) -> str:
    return f"{100 * shares['em']:.2f} / {100 * shares[overlap]:.2f}"
