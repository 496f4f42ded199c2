"""Readers and language models on retrieved passages: metrics, files, and the command."""

import json
from pathlib import Path
from typing import Any

import pytest

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split import Part
from mrc_workbench.data.store import save_question_set
from mrc_workbench.labs.reading.evaluate import ReaderSpec, ReadingExperiment, evaluate, read_experiment
from mrc_workbench.labs.reading.scores import ScoringRules, read_predictions, score_answers
from mrc_workbench.labs.reading.study import as_dict, export_scores
from mrc_workbench.models.llm import ADDRESS, KEY
from mrc_workbench.retrieval.comparison.experiment import ExperimentError
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec
from mrc_workbench.retrieval.significance import proportion_intervals, question_groups
from mrc_workbench.workbench.cli import main
from tests.chat_server import KEY as SECRET
from tests.chat_server import MODEL, chat_server
from tests.labs.reading.doubles import NextWord

CITIES = [f"도시{letter}" for letter in "가나다라마바사아자차카타파하거너더러머버"]
# each city is in two passages, only one of which has the answer
PASSAGES = [
    *(Passage(f"a{n}", f"{city} 시장 이름{n} 강 물{n}", f"{city}") for n, city in enumerate(CITIES)),
    *(Passage(f"b{n}", f"{city} 시장 {city} 시장 다른{n}", f"{city} 옛날") for n, city in enumerate(CITIES)),
]
QUESTIONS = [Question(f"q{n}", f"{city} 시장", (f"이름{n}",), (f"a{n}",)) for n, city in enumerate(CITIES)]
SET = QuestionSet("도시", PASSAGES, tuple(QUESTIONS))
SPECS = (BM25Spec(name="BM25"), BM25Spec(name="Words", analyzer="whitespace"))
FILE = """
data = "{data}"
split = "test"
test_fraction = 0.4
depths_read = [1, 3]
[[retriever]]
kind = "bm25"
name = "BM25"
[[{who}]]
name = "someone"
model = "{model}"
"""


@pytest.fixture
def experiment(monkeypatch: pytest.MonkeyPatch) -> ReadingExperiment:
    monkeypatch.setattr("mrc_workbench.labs.reading.evaluate.SpanReader", lambda _: NextWord())
    split: dict[str, Any] = {"split": Part.TEST, "test_fraction": 0.4, "validation_fraction": 0.3}
    systems: dict[str, Any] = {"retriever": SPECS, "reader": (ReaderSpec(name="next", model="starter"),)}
    return ReadingExperiment(data=save_question_set(SET).key, depths_read=(1, 2, 4), **systems, **split)


def test_metrics_match_exported_answers(experiment: ReadingExperiment, tmp_path: Path) -> None:
    fractions: list[float] = []
    result = evaluate(experiment, SET, on_progress=lambda _, fraction: fractions.append(fraction))
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    export_scores(result, tmp_path)
    scores = json.loads((tmp_path / "scores.json").read_text(encoding="utf-8"))
    assert scores["readers"]["next"].keys() == {"BM25", "Words"}
    assert len(scores["predictions"]) == 6
    for name, source in scores["predictions"].items():
        predictions = read_predictions(tmp_path / "predictions" / name)
        answer_scores = score_answers(result.question_set, predictions, ScoringRules.KORQUAD)
        metrics = scores["readers"]["next"][source["retriever"]][str(source["k"])]
        assert {measure: metrics[measure] for measure in ("em", "f1")} == pytest.approx(answer_scores.means())
        assert metrics["interval"]["em"] == pytest.approx([*answer_scores.intervals["em"]])
        assert sum(metrics["outcomes"].values()) == pytest.approx(1)
        assert metrics["em"] <= metrics["ceiling"] <= 1
    ceilings = [scores["readers"]["next"]["BM25"][k]["ceiling"] for k in ("1", "2", "4")]
    assert ceilings == sorted(ceilings)
    assert ceilings[1] == 1.0, "both passages of a city are ranked first"
    values = result.readers[0].oracle
    ends = proportion_intervals(values, question_groups(result.question_set))
    assert scores["oracles"]["next"]["em"] == 1.0
    assert scores["oracles"]["next"]["interval"]["em"] == pytest.approx(ends[0].tolist())


def test_selects_weight_on_validation_questions(experiment: ReadingExperiment) -> None:
    weights = as_dict(evaluate(experiment, SET))["weights"]["next"]["BM25"]
    assert weights["selected_on"] == "validation"
    everything = experiment.model_copy(update={"split": Part.ALL})
    assert as_dict(evaluate(everything, SET))["weights"]["next"]["BM25"] == {"weight": 0.0, "selected_on": None}


def test_failed_reader_does_not_stop_others(experiment: ReadingExperiment, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = ReaderSpec(name="gone", model="no such/model/at all")
    result = evaluate(experiment.model_copy(update={"reader": (missing, *experiment.reader)}), SET)
    assert result.readers[0].error is not None
    content = as_dict(result)
    assert "error" in content["readers"]["gone"]
    assert content["readers"]["next"]["BM25"]["1"]["em"] >= 0
    assert "gone" not in content["oracles"]


def write_experiment(folder: Path, who: str, model: str) -> Path:
    path = folder / "experiment.toml"
    path.write_text(FILE.format(data=save_question_set(SET).key, who=who, model=model), encoding="utf-8")
    return path


def test_generator_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def answers(text: str) -> str:
        city = text.rpartition("질문: ")[2].split()[0]
        return f"이름{CITIES.index(city)} [1]"

    with chat_server(answers) as server:
        monkeypatch.setenv(ADDRESS, server.address)
        monkeypatch.setenv(KEY, SECRET)
        path = write_experiment(tmp_path, "generator", MODEL)
        assert main(["reading", "evaluate", str(path), "--out", str(tmp_path / "out")]) == 0
        n_requests = len(server.requests)
        assert main(["reading", "evaluate", str(path), "--out", str(tmp_path / "out"), "--json"]) == 0
        assert len(server.requests) == n_requests, "stored answers are not requested again"
    printed = capsys.readouterr().out
    scores = json.loads((tmp_path / "out" / "scores.json").read_text(encoding="utf-8"))
    metrics = scores["generators"]["someone"]["BM25"]
    assert (metrics["em"], metrics["f1"], metrics["contains"], metrics["cites"]) == (1, 1, 1, 1)
    assert metrics["answered"] == n_requests
    assert (metrics["failed"], metrics["remaining"]) == ({}, 0)
    assert "someone from BM25: 100.00 / 100.00" in printed
    for path_written in tmp_path.rglob("*"):
        assert not path_written.is_file() or SECRET not in path_written.read_text(encoding="utf-8", errors="ignore")


def test_requires_endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv(ADDRESS, raising=False)
    assert main(["reading", "evaluate", str(write_experiment(tmp_path, "generator", MODEL)), "--json"]) == 1
    out = capsys.readouterr()
    assert "someone failed" in out.err
    assert "error" in json.loads(out.out)["generators"]["someone"]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ('[[reader]]\nname="a"\n', "model"),
        ('[[reader]]\nname="a"\nmodel="x"\n[[reader]]\nname="a"\nmodel="x"\n', "same name"),
        ("", "needed"),
        ('depths_read=[0]\n[[reader]]\nname="a"\nmodel="x"\n', "depths_read"),
        ('[[generator]]\nname="a"\nmodel="x"\nkey="secret"\n', "key"),
    ],
)
def test_rejects_invalid_experiment_file(tmp_path: Path, change: str, word: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(f'data = "sample"\n{change}[[retriever]]\nkind = "bm25"\nname = "BM25"', encoding="utf-8")
    with pytest.raises(ExperimentError, match=word):
        read_experiment(path)


def test_second_evaluation_reads_no_pair_again(experiment: ReadingExperiment, monkeypatch: pytest.MonkeyPatch) -> None:
    reader: Any = NextWord()
    monkeypatch.setattr("mrc_workbench.labs.reading.evaluate.SpanReader", lambda _: reader)
    first = as_dict(evaluate(experiment, SET))
    pairs = len(reader.read_pairs)
    assert as_dict(evaluate(experiment, SET)) == first
    assert len(reader.read_pairs) == pairs
