"""The errors of an experiment file in words, and a new kind of retriever: a class in `KINDS`, shown like any other."""

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from pydantic import BaseModel
from streamlit.testing.v1 import AppTest

from mrc_workbench.data.split import Part
from mrc_workbench.data.store import save_question_set
from mrc_workbench.labs.reading.evaluate import ReadingExperiment
from mrc_workbench.retrieval.comparison import experiment as experiment_file
from mrc_workbench.retrieval.comparison.compare import compare
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.spec import CachedRetriever, RetrieverContext, Spec
from mrc_workbench.retrieval.comparison.store import ComparisonJob, load
from mrc_workbench.retrieval.comparison.store import save_comparison as keep_comparison
from mrc_workbench.retrieval.rankings import Rankings, top_k
from mrc_workbench.retrieval.report.exports import save
from mrc_workbench.training.ablation import AblationExperiment
from mrc_workbench.workbench.views.choices import choices_for
from mrc_workbench.workbench.views.ui.words import catalog
from tests.doubles import PASSAGES, QUESTIONS, small_set
from tests.retrieval.test_contract import check_contract, makers

DATA = 'data = "sample"\n'
BM25 = '[[retriever]]\nname = "a"\nkind = "bm25"\n'
UNREADABLE = {".": "Is a directory", "missing.toml": "No such file or directory", "": "Is a directory"}
READER = '[[reader]]\nname = "r"\nmodel = "m"\ndepht = 1\n'


def refusal(text: str, folder: Path, kind: type[BaseModel] = Experiment) -> str:
    path = folder / "e.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(experiment_file.ExperimentError) as caught:
        experiment_file.read_experiment_as(kind, path)
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        (Experiment, BM25 + 'analyser = "x"\n', "retriever.0.bm25.analyser: unknown field; did you mean 'analyzer'?"),
        (Experiment, 'splitt = "all"\n' + BM25, "splitt: unknown field; did you mean 'split'?"),
        (ReadingExperiment, BM25 + READER, "reader.0.depht: unknown field"),
        (AblationExperiment, 'txt = "sample"\n', "txt: unknown field; did you mean 'text'?"),
    ],
)
def test_suggests_nearest_known_field(kind: type[BaseModel], text: str, message: str, tmp_path: Path) -> None:
    message_text = refusal(text if kind is AblationExperiment else DATA + text, tmp_path, kind)
    assert message in message_text
    assert "Extra inputs" not in message_text


def test_messages_hide_pydantic_wording(tmp_path: Path) -> None:
    assert refusal(DATA + BM25 + BM25, tmp_path) == "e.toml: file: two retrievers are named 'a'"
    every = refusal(DATA + BM25 + "zzz = 1\n", tmp_path)  # it resembles no field
    assert re.search(r"unknown field; known fields: analyzer, b, compounds, .*selected_on, .*title_weight$", every)
    for own in ('kind = "bm26"\n', 'kind = "bm25"\nanalyser = "word"\n', 'kind = "bm25"\nk1 = "x"\n'):
        assert "at least 1 item" not in refusal(DATA + '[[retriever]]\nname = "a"\n' + own, tmp_path)
    assert "retriever: Tuple should have at least 1 item" in refusal(DATA + "retriever = []\n", tmp_path)


@pytest.mark.parametrize(("name", "reason"), UNREADABLE.items())
def test_names_unreadable_file(name: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(experiment_file.ExperimentError) as caught:
        experiment_file.read_experiment_as(Experiment, Path(name))
    assert str(caught.value) == f"the experiment file {Path(name)} cannot be read: {reason}"


class CharacterOverlap:
    """The share of a question's letters that a passage holds."""

    def __init__(self, name: str, texts: Sequence[str]) -> None:
        self.name = name
        self._characters = [{*text} for text in texts]

    def search(self, questions: Sequence[str], k: int) -> Rankings:
        shares = [[len({*text} & held) / max(1, len({*text})) for held in self._characters] for text in questions]
        scores = np.array(shares).reshape(len(questions), len(self._characters))
        return top_k(np.where(scores > 0, scores, -np.inf), k)


class CharacterOverlapSpec(Spec):
    kind: Literal["letters"] = "letters"

    def make(self, context: RetrieverContext) -> CachedRetriever:
        return context.cached_retriever(self, partial(CharacterOverlap, self.name, context.passages.texts))


SPEC = CharacterOverlapSpec(name="By letters")
SHARE = f"{len({*QUESTIONS[1].text} & {*PASSAGES[1].text}) / len({*QUESTIONS[1].text}):.4f}"  # of q2 in its passage


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment_file, "KINDS", (*experiment_file.KINDS, CharacterOverlapSpec))


def test_custom_retriever_meets_contract() -> None:
    make = makers()["letters kind"]
    for passages in (PASSAGES, PASSAGES[:1]):
        assert make(passages).name == "letters"
        for k in (1, 3, 8):
            check_contract(make(passages), make(passages), passages, k)


@pytest.mark.slow
def test_reads_compares_and_exports_custom_retriever(tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text('data = "small"\n[[retriever]]\nname = "By letters"\nkind = "letters"\n', encoding="utf-8")
    experiment = experiment_file.read_experiment(path)
    assert experiment.retriever == (SPEC,)
    path.write_text(experiment_file.write_experiment(experiment), encoding="utf-8")
    assert experiment_file.read_experiment(path) == experiment
    comparison = compare(experiment, small_set())
    assert comparison.scores["By letters"].means()["hit@1"] > 0.5
    out = tmp_path / "out"
    save(comparison, out)
    (run,) = (path for path in out.glob("*.trec") if path.name != "qrels.trec")
    assert f"q2 Q0 p2 1 {float(SHARE)} By" in run.read_text()
    for name in ("table.md", "table.tex", "report.html", "questions.csv", "questions.jsonl", "provenance.json"):
        assert "By letters" in (out / name).read_text(encoding="utf-8-sig")
    assert load(out, small_set()).experiment == experiment


def page() -> None:
    from mrc_workbench.workbench.views.compare import page as compare_page

    compare_page.draw()


def test_page_displays_question_with_score() -> None:
    data = save_question_set(small_set())
    experiment_file.add_retriever(data.fingerprint, SPEC)
    experiment = choices_for(data).experiment(data, [SPEC.name], Part.ALL)
    keep_comparison(compare(experiment, small_set()), ComparisonJob.of(experiment, data.fingerprint).folder)
    app = AppTest.from_function(page, default_timeout=60)
    app.query_params.update(lang="en", view="why", retrievers=SPEC.name, question="q2", shows="rankings")
    app.run()
    html = " ".join(element.proto.body for element in app.get("html"))
    assert f'<span class="score">{SHARE}</span>' in html
    assert "<b>By letters</b> ranks the answer passage first." in html
    app.query_params["shows"] = "scores"
    app.run()
    assert not app.exception
    assert catalog("en")["why.whole"] in [info.value for info in app.info]
