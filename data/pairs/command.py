"""`python -m data inspect-pairs FILE...`: what is understood of files of sentence pairs, and what the set is like.

`python -m data keep-pairs FILE...` puts the set among those of the workspace.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import CoercionError, Parameter, Token

from data.commands import AsJson, column_words, columns_of, one_of, problem_lines, reading_as_json
from data.formats.columns import PairColumns
from data.pairs.audit import PairAudit, audit_pairs, split_pairs
from data.pairs.reading import PairOptions, PairReading, read_pair_files_apart
from data.pairs.records import PARTS, PairKind
from data.pairs.store import keep
from data.split import Part, SplitOptions
from data.terminal import tell

_NO_PART = "none"
_SPREAD = ("min", "median", "mean", "max")


File = Annotated[Path, Parameter(help="TSV, CSV, JSON, JSONL, Parquet, Excel or text")]
Files = Annotated[Path, Parameter(help="more files of the same set")]
Kind = Annotated[PairKind | None, one_of(PairKind, help="what the pairs are judged by; told by the columns otherwise")]
Scale = Annotated[tuple[float, float] | None, Parameter(help="lowest and highest score there can be")]
NamedColumns = Annotated[dict[str, str] | None, columns_of(PairColumns)]


def _parts_named(_: Any, tokens: Sequence[Token]) -> tuple[Part | None, ...]:
    for token in tokens:
        if token.value not in (*PARTS, _NO_PART):
            raise CoercionError(msg=f"{token.value!r} is none of {', '.join(PARTS)} and {_NO_PART}")
    return tuple(None if token.value == _NO_PART else Part(token.value) for token in tokens)


_PARTS_HELP = f"what each file was published for: {', '.join(PARTS)}, or {_NO_PART}; told by their names otherwise"
Parts = Annotated[
    tuple[Part | None, ...], Parameter(converter=_parts_named, n_tokens=-1, help=_PARTS_HELP, metavar="PART")
]


def inspect_pairs(
    file: File,
    /,
    *files: Files,
    kind: Kind = None,
    scale: Scale = None,
    columns: NamedColumns = None,
    parts: Parts = (),
    as_json: AsJson = False,
) -> int:
    """Tell what files of sentence pairs hold; several are parts of one set."""
    reading = _read((file, *files), kind, scale, columns, parts)
    rows = split_pairs(reading.pairs)
    figures = audit_pairs(reading.pairs, rows)
    if as_json:
        tell(json.dumps(_as_json(reading, figures, rows), ensure_ascii=False, indent=1))
    else:
        tell("\n".join([*_lines(reading), *_figures(figures), *_parts(figures)]))
    return 0


def keep_pairs(
    file: File,
    /,
    *files: Files,
    kind: Kind = None,
    scale: Scale = None,
    columns: NamedColumns = None,
    parts: Parts = (),
) -> int:
    """Keep sentence pairs as a set of the workspace; several files are parts of one set."""
    reading = _read((file, *files), kind, scale, columns, parts)
    kept = keep(reading.pairs, source=", ".join(path.name for path in (file, *files)))
    tell("\n".join([*_lines(reading), f"Kept as {kept.key}"]))
    return 0


def _read(
    files: tuple[Path, ...],
    kind: PairKind | None,
    scale: tuple[float, float] | None,
    columns: dict[str, str] | None,
    parts: tuple[Part | None, ...],
) -> PairReading:
    if parts and len(parts) != len(files):
        raise CoercionError(msg=f"--parts names {len(parts)} parts of {len(files)} files")
    try:
        options = PairOptions(columns or {}, kind, scale, parts)
    except ValueError as error:
        raise CoercionError(msg=str(error)) from error
    return read_pair_files_apart(files, options)


def _lines(reading: PairReading) -> list[str]:
    pairs, several = reading.pairs, len(reading.files) > 1
    scale = f", scale {pairs.scale[0]:g} to {pairs.scale[1]:g}" if pairs.kind is PairKind.SCORED else ""
    lines = [f"{pairs.name}: {len(pairs):,} rows, {pairs.kind}{scale}"]
    for file in reading.files:
        form = ", ".join(filter(None, (file.format, file.encoding, file.part and f"published for {file.part}")))
        lines.append(f"  {file.name}: {form}; {file.row_count:,} rows; {column_words(file.columns)}")
    return lines + [
        line for file in reading.files for line in problem_lines(file, f" in {file.name}" if several else "")
    ]


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
        "files": [
            {"name": file.name, "part": file.part} | reading_as_json(file, file.columns) for file in reading.files
        ],
        "audit": {
            "sentence_count": figures.sentence_count,
            "lengths": [{name: float(getattr(np, name)(one)) for name in _SPREAD} for one in figures.lengths],
            "labels": {label.name.lower(): count for label, count in figures.labels.items()},
            "score_counts": figures.score_counts.tolist(),
            "score_edges": figures.score_edges.tolist(),
            "equal_count": figures.equal_count,
            "repeated_count": len(figures.repeated),
            "disputed_count": figures.disputed_count,
            "leaks": [
                {
                    "from": first,
                    "into": second,
                    "sentences": found.sentences,
                    "rows": len(found.rows),
                    "repeated": found.repeated,
                }
                for (first, second), found in figures.leaks.items()
            ],
        },
        "split": {"published": figures.published, "rows": {part: len(found) for part, found in rows.items()}},
    }
