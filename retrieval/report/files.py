"""Everything there is of a comparison, written into a folder."""

from pathlib import Path
from typing import Any

from data.csv_export import csv_bytes
from data.workspace import replacing, write_json, write_text
from retrieval.analysis.evidence import as_list, evidence
from retrieval.comparison.compare import Comparison
from retrieval.comparison.store import keep, provenance
from retrieval.report.exports import latex_table, markdown_table, per_question_json, per_question_table, write_beir
from retrieval.trec import file_names, write_qrels, write_run


def save(comparison: Comparison, folder: Path, origin: dict[str, Any] | None = None, language: str = "en") -> None:
    """Write all there is of a comparison into `folder`, the report in a language of `retrieval.report.words.LANGUAGES`.

    `origin` is the comparison's provenance, found out where left out.
    """
    from retrieval.report.report import report  # charts and templates: whoever only opens a comparison needs neither

    origin = origin or provenance(comparison)
    keep(comparison, folder, origin)
    found = evidence(comparison)
    write_json(folder / "significance.json", as_list(found.tests))
    write_qrels(folder / "qrels.trec", comparison.question_set)
    names = [result.name for result in comparison.results]
    for name, stem in zip(names, file_names(names), strict=True):
        if name in comparison.rankings:
            write_run(folder / f"{stem}.trec", comparison.rankings[name], comparison.question_set, name)
    write_beir(folder / "beir", comparison.question_set)
    write_text(folder / "questions.jsonl", per_question_json(comparison))
    with replacing(folder / "questions.csv") as new:
        new.write_bytes(csv_bytes(per_question_table(comparison)))
    write_text(folder / "table.md", markdown_table(comparison, found))
    write_text(folder / "table.tex", latex_table(comparison, found))
    write_text(folder / "report.html", report(comparison, language, origin, found))
