"""The report of a set of sentence pairs: as lines for a terminal, and as JSON."""

from typing import Any

import numpy as np

from mrc_workbench.data.formats.rows import (
    column_lines,
    column_words,
    columns_as_json,
    count_words,
    problem_lines,
    reading_as_json,
    spread,
    value_as_json,
)
from mrc_workbench.data.pairs.reading import PairReading
from mrc_workbench.data.pairs.records import PairAudit, PairKind
from mrc_workbench.data.split import PARTS, Part, SplitOptions


def reading_lines(reading: PairReading) -> list[str]:
    """Return what was read from which file and column, and the problems of each file."""
    pairs, several = reading.pairs, len(reading.files) > 1
    scale = f", scale {pairs.scale[0]:g} to {pairs.scale[1]:g}" if pairs.kind is PairKind.SCORED else ""
    lines = [f"{pairs.name}: {len(pairs):,} rows, {pairs.kind}{scale}"]
    for file in reading.files:
        form = ", ".join(filter(None, (file.format, file.encoding, file.part and f"published for {file.part}")))
        lines.append(f"  {file.name}: {form}; {file.row_count:,} rows; {column_words(file.columns)}")
    for file in reading.files:
        of = f" in {file.name}" if several else ""
        lines += column_lines(file, file.columns, of) + problem_lines(file, of)
    return lines


def audit_lines(figures: PairAudit) -> list[str]:
    """Return counts of sentences, labels, scores and repeated rows, and the split."""
    labels = count_words({label.name.lower(): count for label, count in figures.labels.items()})
    bins = zip(figures.score_edges, figures.score_edges[1:], figures.score_counts, strict=False)
    scores = ", ".join(f"{low:g} to {high:g}: {count:,}" for low, high, count in bins)
    return [
        f"Different sentences: {figures.sentence_count:,}; characters: {'; '.join(map(spread, figures.lengths))}",
        *([f"Labels: {labels}"] if labels else []),
        *([f"Scores: {scores}"] if scores else []),
        f"Rows that repeat an earlier one's sentences: {len(figures.repeated):,}; pairs judged differently: "
        f"{figures.disputed_count:,}; rows with the same sentence twice: {figures.equal_count:,}",
        *_split_lines(figures),
    ]


def _split_lines(figures: PairAudit) -> list[str]:
    drawn = [part for part in PARTS if part not in figures.published and figures.part_counts[part]]
    sources = [f"{', '.join(figures.published)} as published"] if figures.published else []
    sources += [f"{', '.join(drawn)} drawn by shared sentences, seed {SplitOptions().seed}"] if drawn else []
    leaks = [
        f"  {len(leak.rows):,} {second} rows hold {leak.sentences:,} sentences of {first} rows, "
        f"{leak.repeated:,} a whole row"
        for (first, second), leak in figures.leaks.items()
        if leak.sentences
    ]
    shared = leaks or ["  no sentence stands in two parts"]
    return [f"Split: {count_words(figures.part_counts)}; {'; '.join(sources)}", *shared]


def as_json(reading: PairReading, figures: PairAudit, rows: dict[Part, np.ndarray]) -> dict[str, Any]:
    """Return the set, its files, its audit and its split, `rows` by part."""
    pairs = reading.pairs
    return {
        "name": pairs.name,
        "fingerprint": pairs.fingerprint,
        "kind": pairs.kind,
        "scale": pairs.scale if pairs.kind is PairKind.SCORED else None,
        "row_count": len(pairs),
        "rows_left_out": reading.left_out,
        "files": [
            {"name": file.name, "part": file.part, **reading_as_json(file, file.columns), **columns_as_json(file)}
            for file in reading.files
        ],
        "audit": {
            "sentence_count": figures.sentence_count,
            "lengths": [value_as_json(lengths) for lengths in figures.lengths],
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
                    "sentences": leak.sentences,
                    "rows": len(leak.rows),
                    "repeated": leak.repeated,
                }
                for (first, second), leak in figures.leaks.items()
            ],
        },
        "split": {"published": figures.published, "rows": {part: len(indices) for part, indices in rows.items()}},
    }
