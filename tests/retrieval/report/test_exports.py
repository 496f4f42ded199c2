"""Exports and scales."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import ir_measures
import pandas as pd
import pytest
from beir.datasets.data_loader import GenericDataLoader

from mrc_workbench.data.formats.text_tables import csv_bytes
from mrc_workbench.data.questions.read import read_file
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.retrieval.analysis.evidence import evidence
from mrc_workbench.retrieval.analysis.questions import RetrievalOutcome
from mrc_workbench.retrieval.comparison.compare import provenance
from mrc_workbench.retrieval.report import charts, exports
from mrc_workbench.retrieval.trec import write_qrels
from tests.doubles import PASSAGES, QUESTIONS, small_set
from tests.retrieval.compared import LATE, NONE, RIGHT, comparison_of, many_questions, partly_judged

FIRST = Passage('"p 1"', 'line\none\ttab "quote" \u2028 세종', 'ti"tle')
HOSTILE = QuestionSet(
    "hostile",
    (FIRST, Passage("p\t2", "two", "=1+1"), Passage("3,4", "three")),
    (Question('q"1', "what\nis\tit?", (), ('"p 1"', "3,4")), Question("q 2", "@who", ("a",), ("p\t2",))),
)


def test_beir_loader_reads_folder(tmp_path: Path) -> None:
    exports.write_beir(tmp_path / "beir", small_set())
    corpus, queries, qrels = GenericDataLoader(str(tmp_path / "beir")).load(split="test")
    assert corpus == {passage.id: {"text": passage.text, "title": passage.title} for passage in PASSAGES}
    assert queries == {question.id: question.text for question in QUESTIONS}
    assert qrels == {question.id: dict.fromkeys(question.relevant, 1) for question in QUESTIONS}
    names = {"corpus.jsonl", "queries.jsonl", "test.tsv"}
    assert {path.name for path in (tmp_path / "beir").rglob("*") if path.is_file()} == names


def test_writes_relevance_grades(tmp_path: Path) -> None:
    ids = [passage.id for passage in PASSAGES]
    judged_question = Question.from_grades("q", "?", {ids[0]: 3, ids[2]: 0, ids[1]: 1})
    graded = QuestionSet("graded", tuple(PASSAGES), (judged_question, QUESTIONS[0]))
    exports.write_beir(tmp_path / "beir", graded)
    qrels = GenericDataLoader(str(tmp_path / "beir")).load(split="test")[2]
    expected = {"q": {ids[0]: 3, ids[1]: 1, ids[2]: 0}, QUESTIONS[0].id: dict.fromkeys(QUESTIONS[0].relevant, 1)}
    assert qrels == expected
    write_qrels(tmp_path / "qrels", graded)
    judged = [*ir_measures.read_trec_qrels(str(tmp_path / "qrels"))]
    pairs = {(question, passage): grade for question, of in expected.items() for passage, grade in of.items()}
    assert {(qrel.query_id, qrel.doc_id): qrel.relevance for qrel in judged} == pairs


def test_beir_loader_reads_hostile_texts_and_no_stale_files(tmp_path: Path) -> None:
    exports.write_beir(tmp_path / "beir", small_set())
    exports.write_beir(tmp_path / "beir", HOSTILE)
    assert [path.name for path in tmp_path.iterdir()] == ["beir"]
    corpus, queries, qrels = GenericDataLoader(str(tmp_path / "beir")).load(split="test")
    ids = ['"p_1"', "p_2", "3,4"]  # white space separates the columns of TREC files
    assert list(corpus) == ids
    assert [entry["text"] for entry in corpus.values()] == [passage.text for passage in HOSTILE.passages]
    assert [entry["title"] for entry in corpus.values()] == [passage.title for passage in HOSTILE.passages]
    assert queries == {'q"1': "what\nis\tit?", "q_2": "@who"}
    assert qrels == {'q"1': {'"p_1"': 1, "3,4": 1}, "q_2": {"p_2": 1}}


def test_exports_results_per_question() -> None:
    compared = comparison_of({"right": RIGHT, "lost": None, "none": NONE})
    lines = [json.loads(line) for line in exports.per_question_json(compared).splitlines()]
    assert [line["id"] for line in lines] == [question.id for question in QUESTIONS]
    last = lines[5]
    assert (last["text"], last["kind"], last["relevant"]) == (QUESTIONS[5].text, "", ["p2", "p3"])
    assert list(last["retrievers"]) == ["right", "none"]
    right = last["retrievers"]["right"]
    assert (right["rank"], right["recall@1"], right["recall@3"], right["hit@1"]) == (1, 0.5, 1.0, 1.0)
    assert right["top"] == ["p2", "p3"]
    assert last["retrievers"]["none"]["rank"] is None
    assert last["retrievers"]["none"]["top"] == ["p5"]


def test_question_table_matches_json() -> None:
    compared = comparison_of({"right": RIGHT, "late": LATE, "none": NONE})
    lines = [json.loads(line) for line in exports.per_question_json(compared).splitlines()]
    read = pd.read_csv(io.BytesIO(csv_bytes(exports.per_question_table(compared))), dtype=str, keep_default_na=False)
    assert read["id"].tolist() == [line["id"] for line in lines]
    for name in ("right", "late", "none"):
        entries = [line["retrievers"][name] for line in lines]
        assert read[f"{name}: top"].tolist() == [" ".join(entry["top"]) for entry in entries]
        assert read[f"{name}: rank"].tolist() == [str(entry["rank"] or "") for entry in entries]
        assert [float(value) for value in read[f"{name}: ndcg@10"]] == [entry["ndcg@10"] for entry in entries]


def test_escapes_spreadsheet_formulas() -> None:
    compared = comparison_of({"=cmd": [[0], [1]]}, HOSTILE)
    rows = list(csv.reader(io.StringIO(csv_bytes(exports.per_question_table(compared)).decode("utf-8-sig"))))
    assert rows[2][1] == "'@who"
    assert rows[0][5].startswith("'=cmd")


def test_markdown_table_lists_metrics() -> None:
    _, compared = many_questions()
    statistics = evidence(compared)
    lines = exports.markdown_table(compared, statistics).splitlines()
    cells = {row[0]: row[1:] for row in ([cell.strip() for cell in line.strip("|").split("|")] for line in lines[:6])}
    assert cells[""] == ["R@1", "R@3", "MRR@10", "nDCG@10"]
    assert cells["lost"] == ["–"] * 4
    low, high = (f"{share * 100:.1f}" for share in statistics.intervals["right"]["recall@1"])
    assert cells["right"][0] == cells["same"][0] == f"**91.67** ({low}–{high})"
    assert cells["late"][0].startswith("8.33↓ (")
    # the second passage of the last question stands third
    assert cells["late"][1].startswith("100.00 (")  # all are equal: no best value
    assert "48 questions, 40 passages" in lines[-1]


def test_tables_include_judgement_measures() -> None:
    compared = partly_judged()[1]
    lines = exports.markdown_table(compared, evidence(compared)).splitlines()
    headings, known, unknown = ([cell.strip() for cell in lines[row].strip("|").split("|")] for row in (0, 2, 3))
    assert headings[-3:] == ["nDCG(dcg='exp-log2')@10", "Judged@10", "Bpref@10"]
    assert known[-2].startswith("**100.00** (")
    assert unknown[-2].startswith("60.00↓ (")
    entries = compared.as_dict()["retrievers"]
    assert isinstance(entries, dict)
    assert [entries[name]["judged@10"] for name in ("known", "unknown")] == pytest.approx([1, 0.6])
    assert {entries[name]["bpref@10"] for name in entries} == {1}
    assert "unknown: judged@10" in exports.per_question_table(compared)


def test_escapes_warnings_below_table() -> None:
    compared = comparison_of({"<b>a\nb": RIGHT})
    (result,) = compared.results
    notes = {"unknown_passages": 2, "unknown_example": "*x*"}
    compared = replace(compared, results=(replace(result, notes=notes),))
    warning = "2 results name passages that are not in the dataset, such as "
    markdown = exports.markdown_table(compared, evidence(compared)).splitlines()[-1]
    assert f"(p < 0.05). Too few questions are compared: {len(compared.question_set.questions)}. " in markdown
    assert "\\<b\\>a b: " + warning + r"'\*x\*'" in markdown
    (comment,) = [line for line in exports.latex_table(compared, evidence(compared)).splitlines() if warning in line]
    assert comment.startswith("% ")


def test_latex_table_lists_metrics() -> None:
    _, compared = many_questions()
    lines = exports.latex_table(compared, evidence(compared)).splitlines()
    rows = {line.split(" & ")[0]: line.removesuffix(r" \\").split(" & ")[1:] for line in lines if " & " in line}
    assert rows["late"][0].startswith(r"8.33$^{\downarrow}$ {\scriptsize ")
    assert rows["right"][0].startswith(r"\textbf{91.67} {\scriptsize ")
    assert rows["lost"] == ["--"] * 4
    assert lines[1] == r"\begin{tabular}{lrrrr}"
    assert lines[-1] == r"\end{tabular}"


@pytest.mark.parametrize(
    ("name", "in_markdown", "in_latex"),
    [
        ("a|b", r"a\|b", "a|b"),
        ("<b>&*_", r"\<b\>\&\*\_", r"<b>\&*\_"),
        ("50 % \\x{}", r"50 % \\x\{\}", r"50 \% \textbackslash{}x\{\}"),
        ("two\nlines  ~ ^ # $", r"two lines \~ ^ \# \$", r"two lines \textasciitilde{} \textasciicircum{} \# \$"),
    ],
)
def test_escapes_names(name: str, in_markdown: str, in_latex: str) -> None:
    assert exports.markdown_text(name) == in_markdown
    compared = comparison_of({name: RIGHT})
    statistics = evidence(compared)
    assert f"| {in_markdown} | " in exports.markdown_table(compared, statistics)
    assert f"\n{in_latex} & " in exports.latex_table(compared, statistics)


def test_marks_synthetic_questions_in_every_export(tmp_path: Path) -> None:
    small = small_set()
    first, second, *others = small.questions
    questions = (first, replace(second, generator="model: m"), *others)
    compared = comparison_of({"A": RIGHT}, replace(small, questions=questions))
    entries = [json.loads(line) for line in exports.per_question_json(compared).splitlines()]
    assert [entry["generator"] for entry in entries[:3]] == ["", "model: m", ""]
    assert exports.per_question_table(compared)["generator"].tolist()[:3] == ["", "model: m", ""]
    original = comparison_of({"A": RIGHT})
    for table in (exports.markdown_table, exports.latex_table):
        assert "(1 of them generated from passages)" in table(compared, evidence(compared))
        assert "generated" not in table(original, evidence(original))
    exports.write_beir(tmp_path / "beir", compared.question_set)
    queries = [json.loads(line) for line in (tmp_path / "beir" / "queries.jsonl").read_text().splitlines()]
    assert [query.get("metadata") for query in queries[:3]] == [None, {"generator": "model: m"}, None]
    assert compared.as_dict()["synthetic_questions"] == {"model: m": 1}
    assert provenance(compared)["data"]["synthetic_questions"] == {"model: m": 1}
    assert "synthetic_questions" not in provenance(original)["data"]


SPACED = tuple(Passage(id_, f"text {id_}") for id_ in ("a b", "c", "d"))


def test_ids_with_spaces_stay_distinct_and_consistent() -> None:
    question_set = QuestionSet("spaced", SPACED, (Question("q 1", "?", relevant=("a b", "c")),))
    table = exports.per_question_table(comparison_of({"right": [[0, 1]]}, question_set))
    assert table["relevant"].tolist() == ["a_b c"]
    assert set(table["right: top"][0].split(" ")) <= {"a_b", "c", "d"}


@pytest.mark.slow
def test_lists_changed_ids_and_reads_them_as_aliases(tmp_path: Path) -> None:
    question_set = QuestionSet("spaced", SPACED, (Question("q1", "?", relevant=("a b", "c")),), {"copy": "c"})
    exports.save(comparison_of({"right": [[0, 1]]}, question_set), tmp_path / "out")
    assert (tmp_path / "out" / "trec-ids.csv").read_text("utf-8-sig") == "kind,id,trec_id\npassage,a b,a_b\n"
    again = read_file(tmp_path / "out" / "beir").question_set
    assert again.aliases == {"a b": "a_b", "copy": "c"}
    exports.save(comparison_of({"A": RIGHT}), tmp_path / "plain")
    assert not (tmp_path / "plain" / "trec-ids.csv").exists()


NAMES = [f"retriever {number}" for number in range(12)]  # more than there are colours, and marks


def test_displayed_retrievers_keep_colour_and_mark() -> None:
    displayed = [NAMES[11], NAMES[2]]
    scale = {"domain": displayed, "range": [charts.PALETTE[1], charts.PALETTE[2]]}
    expected = {"field": "retriever", "type": "nominal", "scale": scale, "legend": None}
    assert charts.colour("retriever", displayed, NAMES).to_dict() == expected
    shapes = charts.shape("retriever", displayed, NAMES, charts.legend(columns=2)).to_dict()
    assert shapes["scale"]["range"] == [charts.SHAPES[5], charts.SHAPES[2]]
    assert shapes["legend"] == {"orient": "bottom", "title": None, "labelLimit": 400, "columns": 2, "symbolOpacity": 1}
    for name in NAMES:  # the mark in a text is that of the charts
        assert charts.mark_character(name, NAMES) == charts.MARK_CHARACTERS[charts.shape_of(name, NAMES)]
        assert charts.colour_of(name, NAMES) in charts.PALETTE


def test_every_loss_has_its_own_colour() -> None:
    assert {*charts.OUTCOME_COLOURS} == {fate.value for fate in RetrievalOutcome if fate is not RetrievalOutcome.FOUND}
    assert len({*charts.OUTCOME_COLOURS.values()}) == len(charts.OUTCOME_COLOURS)


def test_long_names_get_single_legend_column() -> None:
    assert charts.legend_columns(["BM25", "Dense", "Hybrid"]) == 2
    assert charts.legend_columns(["BM25", "Dense · multilingual-e5-small 1"]) == 1
    assert charts.legend_columns([]) == 2
