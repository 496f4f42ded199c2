"""`python -m data inspect-pairs FILE...`: what is understood of files of sentence pairs, and what the set is like.

`python -m data keep-pairs FILE...` puts the set among those of the workspace.
"""

import argparse
import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from data.pairs.apart import read_pair_files_apart
from data.pairs.audit import Leak, PairAudit, audit_pairs
from data.pairs.columns import PairColumns
from data.pairs.reading import FileReading, PairOptions, PairReading
from data.pairs.records import PARTS, PairKind
from data.pairs.split import split_pairs
from data.pairs.store import keep
from data.split import Part, SplitOptions
from data.terminal import tell

COMMANDS = {"inspect-pairs": "tell what files of sentence pairs hold", "keep-pairs": "keep sentence pairs as a set"}

_ROLES = [field.name for field in fields(PairColumns)]
_NO_PART = "none"
_SHOWN_PROBLEMS = 10
_SPREAD = ("min", "median", "mean", "max")


def add_commands(commands: Any) -> None:
    """Add the commands to a parser's."""
    for name, about in COMMANDS.items():
        command = commands.add_parser(name, help=about)
        formats = "TSV, CSV, JSON, JSONL, Parquet, Excel or text; several are parts of one set"
        command.add_argument("files", type=Path, nargs="+", metavar="FILE", help=formats)
        command.add_argument("--kind", type=PairKind, choices=list(PairKind), metavar="KIND", help=", ".join(PairKind))
        command.add_argument("--scale", type=float, nargs=2, metavar=("LOW", "HIGH"), help="ends of the scores' scale")
        command.add_argument(
            "--columns",
            nargs="+",
            type=_column,
            default=[],
            metavar="ROLE=NAME",
            help=f"name columns yourself, for example sentence1=문장; roles: {', '.join(_ROLES)}",
        )
        command.add_argument(
            "--parts",
            nargs="+",
            type=_part,
            default=[],
            metavar="PART",
            help=f"what each file was published for: {', '.join(PARTS)}, or {_NO_PART}; told by their names otherwise",
        )
        command.set_defaults(check=_checked(command))
    commands.choices["inspect-pairs"].add_argument("--json", action="store_true", help="print everything as JSON")


def run(options: argparse.Namespace) -> None:
    """Carry out a command. Raises `DataError` and `OSError`."""
    reading = read_pair_files_apart(options.files, options.check(options))
    lines = [*_understood(reading), *(line for file in reading.files for line in _problems(file, reading))]
    if options.command == "keep-pairs":
        kept = keep(reading.pairs, source=", ".join(path.name for path in options.files))
        tell("\n".join([*lines, f"Kept as {kept.key}"]))
        return
    rows = split_pairs(reading.pairs)
    figures = audit_pairs(reading.pairs, rows)
    if options.json:
        tell(json.dumps(_as_json(reading, figures, rows), ensure_ascii=False, indent=1))
    else:
        tell("\n".join([*lines, *_figures(figures), *_parts(figures)]))


def _checked(command: argparse.ArgumentParser) -> Any:
    """What turns the words of a command into `PairOptions`, and tells what is wrong with them as the parser does."""

    def options_of(words: argparse.Namespace) -> PairOptions:
        if words.parts and len(words.parts) != len(words.files):
            command.error(f"--parts names {len(words.parts)} parts of {len(words.files)} files")
        try:
            scale = tuple(words.scale) if words.scale else None
            return PairOptions(dict(words.columns), words.kind, scale, tuple(words.parts))
        except ValueError as error:
            command.error(str(error))

    return options_of


def _column(text: str) -> tuple[str, str]:
    role, mark, name = text.partition("=")
    if not mark or role not in _ROLES:
        raise argparse.ArgumentTypeError(f"{text!r} is not ROLE=NAME with a role of {', '.join(_ROLES)}")
    return role, name


def _part(text: str) -> Part | None:
    if text not in (*PARTS, _NO_PART):
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(PARTS)} and {_NO_PART}")
    return None if text == _NO_PART else Part(text)


def _understood(reading: PairReading) -> list[str]:
    pairs = reading.pairs
    scale = f", scale {pairs.scale[0]:g} to {pairs.scale[1]:g}" if pairs.kind is PairKind.SCORED else ""
    return [f"{pairs.name}: {len(pairs):,} rows, {pairs.kind}{scale}", *map(_file, reading.files)]


def _file(file: FileReading) -> str:
    named = ", ".join(f"{role} <- {name}" for role, name in asdict(file.columns).items() if name is not None)
    form = ", ".join(filter(None, (file.format, file.encoding, file.part and f"published for {file.part}")))
    return f"  {file.name}: {form}; {file.row_count:,} rows; {named}"


def _problems(file: FileReading, reading: PairReading) -> list[str]:
    name = f" in {file.name}" if len(reading.files) > 1 else ""
    if not file.problems:
        return [f"Problems{name}: none"]
    shown = [f"  {problem.message}" for problem in file.problems[:_SHOWN_PROBLEMS]]
    more = file.problem_count - len(shown)
    lines = [f"Problems{name}: {file.problem_count:,}; rows left out: {file.left_out:,}", *shown]
    return [*lines, f"  and {more:,} more"] if more else lines


def _figures(figures: PairAudit) -> list[str]:
    lengths = "; ".join(f"median {np.median(one):,.0f}, {one.min():,} to {one.max():,}" for one in figures.lengths)
    labels = ", ".join(f"{label.name.lower()} {count:,}" for label, count in figures.labels.items())
    edges = figures.score_edges
    bins = zip(edges, edges[1:], figures.score_counts, strict=False)
    scores = ", ".join(f"{low:g} to {high:g}: {count:,}" for low, high, count in bins)
    return [
        f"Different sentences: {figures.sentence_count:,}; characters: {lengths}",
        *([f"Labels: {labels}"] if labels else []),
        *([f"Scores: {scores}"] if scores else []),
        f"Rows that repeat an earlier one's sentences: {len(figures.repeated):,}; pairs judged differently: "
        f"{figures.disputed_count:,}; rows with the same sentence twice: {figures.equal_count:,}",
    ]


def _parts(figures: PairAudit) -> list[str]:
    counts = ", ".join(f"{part} {count:,}" for part, count in figures.part_counts.items())
    drawn = [part for part in PARTS if part not in figures.published and figures.part_counts[part]]
    told = [f"{', '.join(figures.published)} as published"] if figures.published else []
    told += [f"{', '.join(drawn)} drawn by shared sentences, seed {SplitOptions().seed}"] if drawn else []
    leaks = [
        f"  {len(found.rows):,} {second} rows hold {found.sentences:,} sentences of {first} rows, "
        f"{found.repeated:,} a whole row"
        for (first, second), found in figures.leaks.items()
        if found.sentences
    ]
    shared = leaks or ["  no sentence stands in two parts"]
    return [f"Split: {counts}; {'; '.join(told)}", *shared]


def _as_json(reading: PairReading, figures: PairAudit, rows: dict[Part, np.ndarray]) -> dict[str, Any]:
    pairs = reading.pairs
    return {
        "name": pairs.name,
        "fingerprint": pairs.fingerprint,
        "kind": pairs.kind,
        "scale": pairs.scale if pairs.kind is PairKind.SCORED else None,
        "row_count": len(pairs),
        "rows_left_out": reading.left_out,
        "files": [_file_as_json(file) for file in reading.files],
        "audit": {
            "sentence_count": figures.sentence_count,
            "lengths": [{name: float(getattr(np, name)(one)) for name in _SPREAD} for one in figures.lengths],
            "labels": {label.name.lower(): count for label, count in figures.labels.items()},
            "score_counts": figures.score_counts.tolist(),
            "score_edges": figures.score_edges.tolist(),
            "equal_count": figures.equal_count,
            "repeated_count": len(figures.repeated),
            "disputed_count": figures.disputed_count,
            "leaks": [_leak_as_json(*parts, found) for parts, found in figures.leaks.items()],
        },
        "split": {"published": figures.published, "rows": {part: len(found) for part, found in rows.items()}},
    }


def _leak_as_json(first: Part, second: Part, found: Leak) -> dict[str, Any]:
    rows = {"rows": len(found.rows), "repeated": found.repeated}
    return {"from": first, "into": second, "sentences": found.sentences, **rows}


def _file_as_json(file: FileReading) -> dict[str, Any]:
    return {
        "name": file.name,
        "format": file.format,
        "encoding": file.encoding,
        "part": file.part,
        "columns": asdict(file.columns),
        "available_columns": file.available_columns,
        "row_count": file.row_count,
        "rows_left_out": file.left_out,
        "problem_count": file.problem_count,
        "problems": [{"code": one.code, "row": one.row, "message": one.message} for one in file.problems],
    }
