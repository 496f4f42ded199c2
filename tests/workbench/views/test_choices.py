"""The retrievers that a user can select for a dataset, their experiment, and their descriptions."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import streamlit as st

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.data.store import StoredSet, find, save_question_set
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.models.packaged import PackagedBase
from mrc_workbench.retrieval.comparison.experiment import Experiment, RunSpec, add_retriever, write_experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec, MilvusSpec, SparseSpec, WindowedBM25Spec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec, RerankSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.milvus import MilvusSearchMode
from mrc_workbench.training.ranker_options import BI_ENCODER, CROSS_ENCODER, SPARSE_ENCODER, BiEncoderOptions
from mrc_workbench.training.recipes import RECIPES
from mrc_workbench.training.runs import Run, create_run, new_plan
from mrc_workbench.workbench.views.choices import RetrieverChoices, choices_for, method_line, without_weak_baselines
from mrc_workbench.workbench.views.names import kind_words, retriever_name, set_name
from mrc_workbench.workbench.views.ui.words import free_name
from tests.data.split.worlds import chain
from tests.workbench.views.compare.worlds import whole_sample

DEFAULT_NAMES = ["BM25", "Dense", "Best mix", "Hybrid", "Reranked"]  # a dataset with training questions
E5 = "packaged:multilingual-e5-small"
SPECS: dict[str, Spec] = {"BM25": BM25Spec(name="BM25"), "Dense": DenseSpec(name="Dense", model=E5)}
CHOICES = RetrieverChoices(SPECS, (), {}, (), Analyzer.KIWI_BIGRAM, {})
M3 = "BAAI/bge-m3"
RANKER = "BAAI/bge-reranker-base"
BOTH = ("BM25", "Dense")


def sample() -> StoredSet:
    return save_question_set(whole_sample())


def finished(kind: str, name: str, data: StoredSet, seed: int = 0) -> Run:
    about = (data.key, data.name, data.fingerprint)
    run = create_run(new_plan(kind, name, about, SplitOptions(seed=seed), RECIPES[kind].options.defaults_for()))
    run.write_status(replace(run.status(), state=State.DONE))
    return run


def test_selects_default_retrievers_and_mix_but_not_word_bm25() -> None:
    choices = choices_for(sample())
    assert list(choices.specs) == [*DEFAULT_NAMES, "BM25 words"]
    assert list(choices.default_names) == ["BM25", "Dense", "Best mix"]
    assert choices.specs["Best mix"].components == ("BM25", "Dense")
    assert choices.analyzer is Analyzer.KIWI_BIGRAM


@pytest.mark.parametrize(
    ("selected", "expected"),
    [
        (["BM25", "Dense", "BM25 words", "LSA"], ["BM25", "Dense"]),
        (["BM25", "BM25 words"], ["BM25", "BM25 words"]),
        (["BM25 words", "LSA"], ["BM25 words", "LSA"]),
        (["BM25"], ["BM25"]),
    ],
)
def test_drops_weak_baselines_only_if_two_others_remain(selected: list[str], expected: list[str]) -> None:
    assert without_weak_baselines(selected) == expected


def single_passage_choices(passage: str, question: str) -> RetrieverChoices:
    passages = (Passage("p", passage),)
    questions = (Question("q", question, (), ("p",)),)
    return choices_for(save_question_set(QuestionSet("one", passages, questions)))


def test_offers_word_bm25_only_beside_another_analyzer() -> None:
    swahili = single_passage_choices("Maneno matatu tofauti.", "Maneno gani?")
    assert list(swahili.specs) == ["BM25", "Dense", "Hybrid", "Reranked"]  # too few questions for a mix
    assert swahili.default_names == tuple(swahili.specs)
    english = single_passage_choices("Words that are spaced, and nothing else.", "Which words?")
    assert list(english.specs) == ["BM25", "Dense", "Hybrid", "Reranked", "BM25 words"]
    assert english.analyzer is Analyzer.ENGLISH
    assert "stems (English)" in method_line(english.specs["BM25"], english)


@pytest.mark.packaged
def test_uses_packaged_base_for_dense_search_and_names_the_starter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PackagedBase, "path", Path("anywhere"))
    choices = choices_for(sample())
    assert list(choices.specs) == ["BM25", "Dense", "Late", *DEFAULT_NAMES[2:], "BM25 words", "LSA"]
    assert choices.default_names == ("BM25", "Dense", "Late", "Best mix")
    assert choices.specs["Best mix"].components == ("BM25", "Dense", "Late")
    models = {name: choices.specs[name].model for name in ("Dense", "Late", "LSA")}  # type: ignore[attr-defined]
    assert models == {"Dense": E5, "Late": E5, "LSA": "starter"}
    dimensions = [choices_for(replace(sample(), passages=count)).specs["Late"].dimensions for count in (500, 501)]  # type: ignore[attr-defined]
    assert dimensions == [0, 128]
    more = choices_for(replace(sample(), passages=5_001))  # the cache has tokens only on request
    assert more.default_names == ("BM25", "Dense", "Best mix")
    assert more.specs["Best mix"].components == ("BM25", "Dense")
    assert "Late" in more.specs
    experiment = choices.experiment(sample(), ["Dense"], Part.ALL)
    assert 'model = "packaged:multilingual-e5-small"' in write_experiment(experiment)


def test_selects_only_bm25_for_large_dataset() -> None:
    choices = choices_for(replace(sample(), passages=1_000_000))
    assert choices.large
    assert (list(choices.specs), choices.default_names) == ([*DEFAULT_NAMES, "BM25 words"], ("BM25",))


def test_adds_finished_trainings_but_not_unfinished_ones() -> None:
    data = sample()
    finished(BI_ENCODER, "나의 모델", data)
    finished(CROSS_ENCODER, "reader", data)
    about = (data.key, data.name, data.fingerprint)
    create_run(new_plan(BI_ENCODER, "unfinished", about, SplitOptions(), BiEncoderOptions.defaults_for()))
    choices = choices_for(data)
    mix = "Best mix · trained"
    assert set(choices.trained) == {"Dense · 나의 모델", "Hybrid · 나의 모델", "Reranked · reader", mix}
    assert choices.default_names[-2:] == ("Reranked · reader", mix)


def test_mix_includes_newest_trained_retriever_of_each_kind_and_split() -> None:
    data = sample()
    finished(BI_ENCODER, "of another split", data, seed=7)
    for name in ("one", "another"):  # in the same second, so either is the newest
        finished(BI_ENCODER, name, data)
    finished(SPARSE_ENCODER, "terms", data)
    choices = choices_for(data)
    mix = choices.specs["Best mix · trained"]
    newest = [name for name in choices.trained if name in ("Dense · one", "Dense · another")][-1]
    assert mix.components == (*choices.specs["Best mix"].components, newest, "Sparse · terms")
    assert choices.experiment(data, [mix.name], Part.TEST).seed == 0
    unasked = choices_for(replace(data, questions=99))
    assert not [name for name in unasked.specs if name.startswith("Best mix")]


def test_adds_trained_sparse_encoder_alone_and_with_bm25() -> None:
    data = sample()
    run = finished(SPARSE_ENCODER, "terms", data)
    choices = choices_for(data)
    assert choices.specs["Sparse · terms"] == SparseSpec(name="Sparse · terms", model=run.id)
    assert choices.specs["Hybrid · terms"].components == ("BM25", "Sparse · terms")
    assert choices.default_names[-2:] == ("Sparse · terms", "Best mix · trained")


def test_keeps_names_unique_and_orders_components_first() -> None:
    assert free_name("Dense", {}) == "Dense"
    assert free_name("Dense", choices_for(sample()).specs) == "Dense (2)"
    experiment = choices_for(sample()).experiment(sample(), ["Hybrid"], Part.ALL)
    assert [spec.name for spec in experiment.retriever] == ["BM25", "Dense", "Hybrid"]
    assert Experiment.model_validate_json(experiment.model_dump_json()) == experiment


def test_evaluates_trained_model_on_its_training_split() -> None:
    data = sample()
    finished(BI_ENCODER, "seeded", data, seed=7)
    experiment = choices_for(data).experiment(data, ["BM25", "Dense · seeded"], Part.TEST)
    assert experiment.seed == 7


def test_imported_run_and_its_wrappers_are_not_searchable() -> None:
    data = sample()
    add_retriever(data.fingerprint, RunSpec(name="Run", path="/x.trec"))
    add_retriever(data.fingerprint, HybridSpec(name="Both", retrievers=("BM25", "Run")))
    choices = choices_for(data)
    assert {"Run", "Both"} <= choices.specs.keys()
    assert choices.searchable == [*DEFAULT_NAMES, "BM25 words"]


@pytest.fixture(params=["en", "ko"])
def page_language(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(st, "query_params", {"lang": request.param})
    return str(request.param)


@pytest.mark.parametrize(
    ("spec", "en", "ko"),
    [
        (SPECS["BM25"], "morphemes (Kiwi) and character bigrams", "형태소(Kiwi)와 글자 바이그램"),
        (BM25Spec(name="Words", analyzer=Analyzer.WORD), "split into words", "토큰 단위: 어절"),
        (BM25Spec(name="A", fb_docs=5), "from the top 5 passages (RM3)", "지문 5개의 단어로 질문 확장(RM3)"),
        (BM25Spec(name="Own", dictionary="dictionary:x"), "with a dictionary", "사전 사용"),
        (WindowedBM25Spec(name="Windows", sentences=3), "3 sentences at a time", "문장 3개씩"),
        (BM25Spec(name="Pairs", pairs=True), "(Kiwi), two adjacent terms as one", "(Kiwi), 이어진 두 단어를 한 단위로"),
        (SPECS["Dense"], "multilingual-e5-small, untrained", "multilingual-e5-small, 학습 전"),
        (DenseSpec(name="LSA"), "(LSA), untrained", "(LSA), 학습 전"),
        (DenseSpec(name="Hub", model=M3), f"with {M3}", M3),
        (SparseSpec(name="Sparse", model="a/splade"), "weighted by a model, a/splade", "중요도로 찾음. a/splade"),
        (RunSpec(name="Run", path="/x.trec"), "results of another engine", "다른 엔진의 검색 결과"),
        (HybridSpec(name="Hybrid", retrievers=BOTH), "BM25 + Dense", "BM25 + Dense 결과를 결합"),
        (
            HybridSpec(name="W", retrievers=BOTH, weights=(0.3, 0.7)),
            "BM25 × 0.3 + Dense × 0.7",
            "BM25 × 0.3 + Dense × 0.7",
        ),
        (
            RerankSpec(name="Reranked", first_stage="BM25", model=RANKER),
            f"reranks BM25's top 20 with {RANKER}",
            f"BM25 상위 20개를 모델로 재정렬. {RANKER}",
        ),
        (
            MilvusSpec(name="Milvus", search=MilvusSearchMode.DENSE, model=M3),
            f"searches in Milvus: finds passages of similar meaning with {M3}",
            "Milvus에서 검색.",
        ),
        (
            MilvusSpec(name="Both", search=MilvusSearchMode.HYBRID, model=M3),
            f"Milvus: fuses the results of BM25 + {M3}",
            f"BM25 + {M3} 결과를 결합",
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Spec) else "",
)
def test_describes_every_kind_of_retriever(spec: Spec, en: str, ko: str, page_language: str) -> None:
    line = method_line(spec, CHOICES)
    assert line.startswith(f"{retriever_name(spec.name)}: ")
    assert {"en": en, "ko": ko}[page_language] in line


def test_describes_trained_model_by_base_and_name(page_language: str) -> None:
    plan = new_plan(BI_ENCODER, "Bi-encoder 1", ("k", "n", "f"), SplitOptions(), BiEncoderOptions(base=E5))
    run = create_run(plan)
    run.write_status(replace(run.status(), state=State.DONE))
    spec = DenseSpec(name="Dense · 1", model=run.id)
    phrase_by_language = {"en": "trained here (", "ko": "여기서 학습("}
    assert f"multilingual-e5-small, {phrase_by_language[page_language]}Bi-encoder 1)" in method_line(spec, CHOICES)
    read = replace(CHOICES, plans={run.id: replace(plan, name="as it was read")})
    assert f"multilingual-e5-small, {phrase_by_language[page_language]}as it was read)" in method_line(spec, read)


def test_describes_unknown_analyzer_as_suited_to_the_language(page_language: str) -> None:
    phrase_by_language = {"en": "split into terms for the language", "ko": "언어에 맞춤"}
    assert phrase_by_language[page_language] in method_line(SPECS["BM25"], replace(CHOICES, analyzer=Analyzer.AUTO))


@pytest.mark.usefixtures("page_language")
def test_describes_added_kind_by_its_kind() -> None:
    class CustomSpec(RunSpec):
        kind: str = "letters"  # type: ignore[assignment]

    assert method_line(CustomSpec(name="Mine", path="x"), CHOICES) == "Mine: letters"


def test_translates_names_of_the_sample_and_of_kinds(page_language: str) -> None:
    names = [set_name("Korean sample"), set_name("mine"), *map(kind_words, ("paraphrase", "several-sentences", "year"))]
    english = ["Korean sample", "mine", "Paraphrased", "Multi-sentence", "year"]
    korean = ["한국어 샘플", "mine", "바꿔 쓴 표현", "여러 문장 종합", "year"]
    assert names == {"en": english, "ko": korean}[page_language]


def test_translates_every_kind_of_the_sample() -> None:
    from mrc_workbench.workbench.views.ui.words import LANGUAGES, catalog

    kinds = {question.kind for question in find("sample").questions}
    for language in LANGUAGES:
        assert {f"question_kind.{kind}" for kind in kinds} <= catalog(language).keys()


def write_earlier_plan(run: Run) -> None:
    """Write the file of a run as an earlier version, which had only strict splits."""
    path = run.folder / "run.json"
    plan = json.loads(path.read_text(encoding="utf-8"))
    del plan["split"]["strict"]
    path.write_text(json.dumps(plan), encoding="utf-8")


@pytest.mark.parametrize("strict", [True, False])
def test_evaluates_earlier_model_on_its_strict_split(strict: bool) -> None:
    """Its training questions would be test questions of the present split."""
    data = save_question_set(chain(60)) if strict else sample()
    write_earlier_plan(finished(BI_ENCODER, "old", data))
    choices = choices_for(data)
    name = next(iter(choices.trained))
    assert choices.experiment(data, [name], Part.TEST).split_options == SplitOptions(strict=strict)
    assert choices.experiment(data, ["BM25"], Part.TEST).split_options == SplitOptions()
