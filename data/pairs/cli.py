"""`mrc pairs`: inspect, import and list sentence pairs; the report of a set as lines and as JSON."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import CoercionError, Parameter, Token

from mrc_workbench.data.commands import AsJson, add_list_command, choice_option, columns_option, command_group
from mrc_workbench.data.formats import rows as reports
from mrc_workbench.data.formats.columns import PairColumns
from mrc_workbench.data.formats.encodings import ENCODINGS
from mrc_workbench.data.pairs import PairAudit, PairKind, audit_pairs, split_pairs, store
from mrc_workbench.data.pairs.store import PAIR_CATALOG, PairReading, PairReadOptions
from mrc_workbench.data.split import PARTS, Part, SplitOptions
from mrc_workbench.data.terminal import print_line

commands = command_group("pairs", "Inspect and import sentence pairs.")
_NO_PART = "none"
_PAIR_FILE_HELP = (
    "TSV, CSV, JSON, JSONL, Parquet, Excel or text, a folder or zip archive of them; "
    f"or a dataset of the catalog: {', '.join(PAIR_CATALOG)}"
)
PairFile = Annotated[Path, Parameter(help=_PAIR_FILE_HELP)]
PairFiles = Annotated[Path, Parameter(help="more files of the same dataset")]
_KIND = choice_option(PairKind, help="how the pairs are labelled; by default the columns decide")
_PARTS_HELP = f"part of each file: {', '.join(PARTS)}, or {_NO_PART}; by default their names decide"
_ENCODING_HELP = f"encoding of the text, if it is not detected: {', '.join(ENCODINGS)}"


def reading_lines(reading: PairReading) -> list[str]:
    """Return lines about each file with its columns and problems."""
    pairs = reading.pairs
    has_several_files = len(reading.files) > 1
    scale = f", scale {pairs.scale[0]:g} to {pairs.scale[1]:g}" if pairs.kind is PairKind.SCORED else ""
    lines = [f"{pairs.name}: {len(pairs):,} rows, {pairs.kind}{scale}"]
    for file in reading.files:
        form = ", ".join(filter(None, (file.format, file.encoding, file.part and f"published for {file.part}")))
        lines.append(f"  {file.name}: {form}; {file.row_count:,} rows; {reports.format_columns(file.columns)}")
    for file in reading.files:
        suffix = f" in {file.name}" if has_several_files else ""
        lines += reports.column_lines(file, file.columns, suffix) + reports.problem_lines(file, suffix)
    return lines


def audit_lines(result: PairAudit) -> list[str]:
    """Return lines about sentences, labels, scores, repeated rows, and the split."""
    labels = reports.format_counts({label.name.lower(): count for label, count in result.labels.items()})
    bins = zip(result.score_edges, result.score_edges[1:], result.score_counts, strict=False)
    scores = ", ".join(f"{low:g} to {high:g}: {count:,}" for low, high, count in bins)
    lengths = "; ".join(map(reports.format_range, result.lengths))
    return [
        f"Different sentences: {result.sentence_count:,}; characters: {lengths}",
        *([f"Labels: {labels}"] if labels else []),
        *([f"Scores: {scores}"] if scores else []),
        f"Rows that repeat an earlier row: {len(result.repeated):,}; pairs judged differently: "
        f"{result.disputed_count:,}; rows with the same sentence twice: {result.equal_count:,}",
        *_split_lines(result),
    ]


def _split_lines(result: PairAudit) -> list[str]:
    sampled = [part for part in PARTS if part not in result.published and result.part_counts[part]]
    sources = [f"{', '.join(result.published)} as published"] if result.published else []
    sources += [f"{', '.join(sampled)} drawn by shared sentences, seed {SplitOptions().seed}"] if sampled else []
    leaks = [
        f"  {len(leak.rows):,} {second} rows hold {leak.sentences:,} sentences of {first} rows, "
        f"{leak.repeated:,} a whole row"
        for (first, second), leak in result.leaks.items()
        if leak.sentences
    ]
    shared = leaks or ["  no sentence stands in two parts"]
    return [f"Split: {reports.format_counts(result.part_counts)}; {'; '.join(sources)}", *shared]


def report_as_json(reading: PairReading, result: PairAudit, rows: dict[Part, np.ndarray]) -> dict[str, Any]:
    """Return the set, its files, its audit and its split; `rows` are those of each part."""
    pairs = reading.pairs
    leaks = [
        {"from": first, "into": second, "sentences": leak.sentences, "rows": len(leak.rows), "repeated": leak.repeated}
        for (first, second), leak in result.leaks.items()
    ]
    return {
        "name": pairs.name,
        "fingerprint": pairs.fingerprint,
        "kind": pairs.kind,
        "scale": pairs.scale if pairs.kind is PairKind.SCORED else None,
        "row_count": len(pairs),
        "rows_left_out": reading.left_out,
        "files": [
            {"name": file.name, "part": file.part}
            | reports.reading_as_json(file, file.columns)
            | reports.columns_as_json(file)
            for file in reading.files
        ],
        "audit": {
            "sentence_count": result.sentence_count,
            "lengths": [reports.value_as_json(lengths) for lengths in result.lengths],
            "labels": {label.name.lower(): count for label, count in result.labels.items()},
            "score_counts": result.score_counts.tolist(),
            "score_edges": result.score_edges.tolist(),
            "equal_count": result.equal_count,
            "repeated_count": len(result.repeated),
            "disputed_count": result.disputed_count,
            "leaks": leaks,
        },
        "split": {"published": result.published, "rows": {part: len(indices) for part, indices in rows.items()}},
    }


def _convert_parts(_: Any, tokens: Sequence[Token]) -> tuple[Part | None, ...]:
    for token in tokens:
        if token.value not in (*PARTS, _NO_PART):
            raise CoercionError(msg=f"{token.value!r} is none of {', '.join(PARTS)} and {_NO_PART}")
    return tuple(None if token.value == _NO_PART else Part(token.value) for token in tokens)


_PARTS = Parameter(converter=_convert_parts, n_tokens=-1, help=_PARTS_HELP, metavar="PART")


@Parameter(name="*")
@dataclass(frozen=True)
class PairCommandOptions:
    """The options of a user; missing values are guessed from the files."""

    kind: Annotated[PairKind | None, _KIND] = None
    scale: Annotated[tuple[float, float] | None, Parameter(help="lowest and highest possible score")] = None
    columns: Annotated[dict[str, str] | None, columns_option(PairColumns)] = None
    parts: Annotated[tuple[Part | None, ...], _PARTS] = ()
    encoding: Annotated[str, Parameter(help=_ENCODING_HELP)] = ""


@commands.command
def inspect(
    file: PairFile, /, *files: PairFiles, options: PairCommandOptions = PairCommandOptions(), as_json: AsJson = False
) -> int:
    """Show the content of files of sentence pairs.

    Several files are parts of one dataset.
    """
    reading = _read_pairs((file, *files), options)
    rows = split_pairs(reading.pairs)
    result = audit_pairs(reading.pairs, rows)
    if as_json:
        print_line(json.dumps(report_as_json(reading, result, rows), ensure_ascii=False, indent=1))
    else:
        print_line("\n".join([*reading_lines(reading), *audit_lines(result)]))
    return 0


@commands.command(name="import")
def import_files(file: PairFile, /, *files: PairFiles, options: PairCommandOptions = PairCommandOptions()) -> int:
    """Import sentence pairs, and print their key.

    Several files are parts of one dataset.
    """
    reading = _read_pairs((file, *files), options)
    stored_pairs = store.save_pairs(reading.pairs, source=", ".join(path.name for path in (file, *files)))
    print_line("\n".join([*reading_lines(reading), f"stored as {stored_pairs.key}"]))
    return 0


add_list_command(
    commands,
    "imported sentence pairs",
    store.stored,
    lambda pairs: f"{pairs.key}  {pairs.kind.value:<8}  {pairs.rows:>9,} pairs  {pairs.name}",
    empty="No sentence pairs yet: `mrc pairs import FILE` imports them.",
)


def _read_pairs(files: tuple[Path, ...], choices: PairCommandOptions) -> PairReading:
    entry = PAIR_CATALOG.get(str(files[0])) if len(files) == 1 and not files[0].exists() else None
    if choices.parts and len(choices.parts) != len(files) and entry is None:
        raise CoercionError(msg=f"--parts names {len(choices.parts)} parts of {len(files)} files")
    try:
        options = PairReadOptions(choices.columns or {}, choices.kind, choices.scale, choices.parts)
    except ValueError as error:
        raise CoercionError(msg=str(error)) from error
    if entry is None:
        return store.read_pair_files_in_subprocess(files, options, choices.encoding)
    given = {name: value for name in ("kind", "scale", "parts") if (value := getattr(options, name))}
    options = replace(entry.options, columns=options.columns, **given)
    reading = store.read_pairs_in_subprocess(store.obtain_files(entry), options)
    return replace(reading, pairs=replace(reading.pairs, name=entry.title))
