"""All results of a comparison as files for other tools, spreadsheets and papers."""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mrc_workbench.data.cache import SCORES
from mrc_workbench.data.formats.text_tables import csv_bytes
from mrc_workbench.data.questions.read import corpus_entries
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.split import Part
from mrc_workbench.data.workspace import replacing, replacing_folder, write_json, write_text
from mrc_workbench.retrieval.analysis.evidence import ComparisonEvidence, displayed_measures, label, metric_rows
from mrc_workbench.retrieval.analysis.evidence import evidence as compute_evidence
from mrc_workbench.retrieval.comparison.compare import Comparison, provenance
from mrc_workbench.retrieval.comparison.store import save_comparison
from mrc_workbench.retrieval.measures import DEFAULT_CUTOFF, first_relevant_ranks
from mrc_workbench.retrieval.rankings import NOT_FOUND
from mrc_workbench.retrieval.trec import changed_ids, file_names, trec_ids, write_qrels, write_run

_MARKUP = re.compile(r"([\\`*_\[\]|<>~$&])")
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{character: f"\\{character}" for character in "&%$#_{}"},
}
TREC_IDS = "trec-ids.csv"  # ids with white space, and their form in the TREC and BEIR files
_ARROWS = {1: "↑", 0: "", -1: "↓"}
_LATEX_ARROWS = {1: r"$^{\uparrow}$", 0: "", -1: r"$^{\downarrow}$"}
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>~$:&])")


def write_beir(folder: Path, question_set: QuestionSet) -> None:
    """Write a folder in the format of BEIR, with the ids of the TREC files."""
    questions, passages = trec_ids(question_set)
    corpus = corpus_entries(question_set, passages)
    queries = (
        {"_id": i, "text": q.text, **({"metadata": {"generator": q.generator}} if q.generator else {})}
        for i, q in zip(questions, question_set.questions, strict=True)
    )
    with replacing(folder) as new:
        (new / "qrels").mkdir(parents=True)
        for name, entries in (("corpus.jsonl", corpus), ("queries.jsonl", queries)):
            with (new / name).open("w", encoding="utf-8") as lines:
                lines.writelines(_json_lines(entries))
        with (new / "qrels" / "test.tsv").open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, delimiter="\t", lineterminator="\n")
            rows.writerow(["query-id", "corpus-id", "score"])
            for id_, question in zip(questions, question_set.questions, strict=True):
                for passage_id, grade in question.grade_of.items():
                    rows.writerow([id_, passages[question_set.row_of_passage[passage_id]], grade])


def per_question_json(comparison: Comparison) -> str:
    """Return a JSON object per line and question, with the results of each retriever.

    These are the rank of the first relevant passage or null, every measure, and the ids of the top 10 passages.
    """
    results = [(name, list(_per_question(comparison, name))) for name in comparison.scores]
    entries = (
        {
            "id": question.id,
            "text": question.text,
            "kind": question.kind,
            "generator": question.generator,
            "relevant": question.relevant,
            "retrievers": {name: entries[row] for name, entries in results},
        }
        for row, question in enumerate(comparison.question_set.questions)
    )
    return "".join(_json_lines(entries))


def per_question_table(comparison: Comparison) -> pd.DataFrame:
    """Return the results as a table, one row per question; columns of a retriever begin with its name.

    Passages have the ids of the TREC and BEIR files, which contain no space.
    """
    questions = comparison.question_set.questions
    _, passage_ids = trec_ids(comparison.question_set)
    trec_id_of = dict(zip(comparison.question_set.passages.ids, passage_ids, strict=True))
    columns: dict[str, Any] = {
        "id": [question.id for question in questions],
        "question": [question.text for question in questions],
        "kind": [question.kind for question in questions],
        "generator": [question.generator for question in questions],
        "relevant": [" ".join(trec_id_of[id_] for id_ in question.relevant) for question in questions],
    }
    for name in comparison.scores:
        entries = pd.DataFrame(_per_question(comparison, name))
        entries["top"] = [" ".join(trec_id_of[id_] for id_ in top) for top in entries["top"]]
        entries["rank"] = entries["rank"].astype("Int64")
        columns |= {f"{name}: {column}": entries[column] for column in entries}
    return pd.DataFrame(columns)


def _per_question(comparison: Comparison, name: str) -> Iterator[dict[str, Any]]:
    rankings = comparison.rankings[name]
    question_set = comparison.question_set
    top = rankings.indices[:, :DEFAULT_CUTOFF]
    rows, positions = np.unique(top, return_inverse=True)  # a large corpus has many more ids
    ids = np.array([question_set.passages.ids[row] if row != NOT_FOUND else "" for row in rows.tolist()], dtype=object)
    ranks = first_relevant_ranks(rankings, question_set).tolist()
    values = {measure: column.tolist() for measure, column in comparison.scores[name].per_question.items()}
    for row, (rank, passage_ids) in enumerate(zip(ranks, ids[positions.reshape(top.shape)], strict=True)):
        measured = {measure: column[row] for measure, column in values.items()}
        yield {"rank": rank or None, **measured, "top": passage_ids[top[row] != NOT_FOUND].tolist()}


def markdown_table(comparison: Comparison, evidence: ComparisonEvidence) -> str:
    """Return the metrics in percent with their intervals as a Markdown table, the best of a column bold.

    ↑ and ↓ mark values significantly above or below the baseline (p below 0.05, tested together).
    """
    displayed = displayed_measures(comparison)
    lines = ["| " + " | ".join(["", *map(label, displayed)]) + " |", "|---" + "|---:" * len(displayed) + "|"]
    for name, row in metric_rows(comparison, evidence, displayed).items():
        cells = [markdown_text(name)]
        for metric in row:
            bold = "**" if metric and metric.is_best else ""
            text = f"{bold}{metric.percent}{bold}{_ARROWS[metric.vs_baseline]} ({metric.interval})" if metric else "–"
            cells.append(text)
        lines.append("| " + " | ".join(cells) + " |")
    caption = _caption(comparison, evidence, lambda text: _MARKUP.sub(r"\\\1", text))
    return "\n".join([*lines, "", caption, ""])


def latex_table(comparison: Comparison, evidence: ComparisonEvidence) -> str:
    """Return the metrics as a LaTeX `tabular` for the package booktabs."""
    displayed = displayed_measures(comparison)
    caption = _caption(comparison, evidence, lambda text: text)
    lines = [f"% {caption}", rf"\begin{{tabular}}{{l{'r' * len(displayed)}}}", r"\toprule"]
    lines += [" & ".join(["", *map(label, displayed)]) + r" \\", r"\midrule"]
    for name, row in metric_rows(comparison, evidence, displayed).items():
        cells = ["".join(_LATEX.get(character, character) for character in _single_line(name))]
        for metric in row:
            if metric is None:
                cells.append("--")
                continue
            mean = rf"\textbf{{{metric.percent}}}" if metric.is_best else metric.percent
            interval = metric.interval.replace("–", "--")
            cells.append(rf"{mean}{_LATEX_ARROWS[metric.vs_baseline]} {{\scriptsize {interval}}}")
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def markdown_text(text: str) -> str:
    """Escape a user's text for Markdown and HTML."""
    return _MARKDOWN.sub(r"\\\1", _single_line(text))


def _single_line(text: str) -> str:
    return " ".join(text.split())


def _caption(comparison: Comparison, evidence: ComparisonEvidence, escape: Callable[[str], str]) -> str:
    """Return the caption of a table, with warnings; `escape` is for names and ids of users."""
    questions = comparison.question_set.questions
    passages = comparison.question_set.passages
    synthetic_count = sum(comparison.question_set.generated_counts.values())
    synthetic_note = f" ({synthetic_count:,} of them generated from passages)" if synthetic_count else ""
    part = comparison.experiment.split
    split = f"{part} part, split {comparison.split.description}; " if comparison.split and part is not Part.ALL else ""
    baseline = escape(_single_line(evidence.baseline))
    caption = (
        f"{len(questions):,} questions{synthetic_note}, {len(passages):,} passages, {split}in percent "
        f"with 95% intervals; bold: best of a column; ↑ ↓: significantly above or below {baseline} (p < 0.05)"
    )
    warnings = [escape(_single_line(warning)) for warning in comparison.warnings]
    return f"{caption}. {' '.join(warnings)}" if warnings else caption


def _json_lines(entries: Iterable[dict[str, Any]]) -> Iterator[str]:
    return (json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)


def save(comparison: Comparison, folder: Path, origin: dict[str, Any] | None = None, language: str = "en") -> None:
    """Write all results of a comparison into `folder`, the report in one of `retrieval.report.words.LANGUAGES`.

    `origin` is the comparison's provenance, computed if missing. The folder changes in one step; other files stay.
    """
    from mrc_workbench.retrieval.report.report import report

    origin = origin or provenance(comparison)
    statistics = compute_evidence(comparison)
    question_set = comparison.question_set
    names = [result.name for result in comparison.results]
    with replacing_folder(folder, last=SCORES) as new:
        save_comparison(comparison, new, origin)
        write_json(new / "significance.json", [asdict(test) for test in statistics.tests])
        write_qrels(new / "qrels.trec", question_set)
        for name, stem in zip(names, file_names(names), strict=True):
            if name in comparison.rankings:
                write_run(new / f"{stem}.trec", comparison.rankings[name], question_set, name)
        write_beir(new / "beir", question_set)
        if len(changed := changed_ids(question_set)):
            (new / TREC_IDS).write_bytes(csv_bytes(changed))
        write_text(new / "questions.jsonl", per_question_json(comparison))
        (new / "questions.csv").write_bytes(csv_bytes(per_question_table(comparison)))
        write_text(new / "table.md", markdown_table(comparison, statistics))
        write_text(new / "table.tex", latex_table(comparison, statistics))
        write_text(new / "report.html", report(comparison, language, origin, statistics))
