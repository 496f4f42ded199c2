"""What can be picked for a question set, and the experiment it makes. What a retriever does, in a line. The sample
speaks the person's language; what others bring keeps its own names."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import streamlit as st

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split import Part, SplitOptions
from mrc_workbench.data.store import StoredSet, find, keep
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.models.packaged import PackagedBase
from mrc_workbench.retrieval.comparison.experiment import Experiment, RunSpec, add, write_experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec, MilvusSpec, SparseSpec, WindowedBM25Spec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec, RerankSpec
from mrc_workbench.retrieval.comparison.spec import Spec
from mrc_workbench.retrieval.milvus import Search
from mrc_workbench.training.ranker_options import BI_ENCODER, CROSS_ENCODER, SPARSE_ENCODER, BiEncoderOptions
from mrc_workbench.training.recipes import RECIPES
from mrc_workbench.training.runs import Run, create_run, new_plan
from mrc_workbench.workbench.views.choices import Choices, choices_for, method_line, without_plainest
from mrc_workbench.workbench.views.names import retriever_name
from mrc_workbench.workbench.views.ui.words import free_name
from tests.data.split.worlds import chain
from tests.workbench.views.compare.worlds import whole_sample
from tests.workbench.views.driving import opened

USUAL = ["BM25", "Dense", "Best mix", "Hybrid", "Reranked"]  # of a set with questions to learn from
E5 = "packaged:multilingual-e5-small"
SPECS: dict[str, Spec] = {"BM25": BM25Spec(name="BM25"), "Dense": DenseSpec(name="Dense", model=E5)}
CHOICES = Choices(SPECS, (), {}, (), Analyzer.KIWI_BIGRAM, {})


def sample() -> StoredSet:
    return keep(whole_sample())


def finished(kind: str, name: str, data: StoredSet, seed: int = 0) -> Run:
    about = (data.key, data.name, data.fingerprint)
    run = create_run(new_plan(kind, name, about, SplitOptions(seed=seed), RECIPES[kind].options.suited_to()))
    run.write_status(replace(run.status(), state=State.DONE))
    return run


def test_without_trainings_what_searches_and_their_mix_are_picked_and_bm25_of_plain_words_is_not() -> None:
    choices = choices_for(sample())
    assert list(choices.specs) == [*USUAL, "BM25 words"]
    assert list(choices.first_picked) == ["BM25", "Dense", "Best mix"]
    assert choices.specs["Best mix"].parts == ("BM25", "Dense")
    assert choices.analyzer is Analyzer.KIWI_BIGRAM


@pytest.mark.parametrize(
    ("picked", "told"),
    [
        (["BM25", "Dense", "BM25 words", "LSA"], ["BM25", "Dense"]),
        (["BM25", "BM25 words"], ["BM25", "BM25 words"]),
        (["BM25 words", "LSA"], ["BM25 words", "LSA"]),
        (["BM25"], ["BM25"]),
    ],
)
def test_the_plainest_are_told_of_only_where_there_are_no_two_others(picked: list[str], told: list[str]) -> None:
    assert without_plainest(picked) == told


def of_one_passage(passage: str, question: str) -> Choices:
    passages, questions = (Passage("p", passage),), (Question("q", question, (), ("p",)),)
    return choices_for(keep(QuestionSet("one", passages, questions)))


def test_bm25_of_words_is_a_second_one_only_beside_stems() -> None:
    swahili = of_one_passage("Maneno matatu tofauti.", "Maneno gani?")
    assert list(swahili.specs) == ["BM25", "Dense", "Hybrid", "Reranked"]  # one question teaches no mix
    assert swahili.first_picked == tuple(swahili.specs)
    english = of_one_passage("Words that are spaced, and nothing else.", "Which words?")
    assert list(english.specs) == ["BM25", "Dense", "Hybrid", "Reranked", "BM25 words"]
    assert english.analyzer is Analyzer.ENGLISH
    assert "stems (English)" in method_line(english.specs["BM25"], english)


@pytest.mark.packaged
def test_a_base_that_a_package_ships_is_dense_search_and_the_starter_is_called_what_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PackagedBase, "path", Path("anywhere"))
    choices = choices_for(sample())
    assert list(choices.specs) == ["BM25", "Dense", "Late", *USUAL[2:], "BM25 words", "LSA"]
    assert choices.first_picked == ("BM25", "Dense", "Late", "Best mix")
    assert choices.specs["Best mix"].parts == ("BM25", "Dense", "Late")
    models = {name: choices.specs[name].model for name in ("Dense", "Late", "LSA")}  # type: ignore[attr-defined]
    assert models == {"Dense": E5, "Late": E5, "LSA": "starter"}
    dimensions = [choices_for(replace(sample(), passages=count)).specs["Late"].dimensions for count in (500, 501)]  # type: ignore[attr-defined]
    assert dimensions == [0, 128]
    more = choices_for(replace(sample(), passages=5_001))  # their tokens are kept when a person asks for them
    assert more.first_picked == ("BM25", "Dense", "Best mix")
    assert more.specs["Best mix"].parts == ("BM25", "Dense")
    assert "Late" in more.specs
    experiment = choices.experiment(sample(), ["Dense"], Part.ALL)
    assert 'model = "packaged:multilingual-e5-small"' in write_experiment(experiment)


def test_of_a_large_set_bm25_alone_is_picked_at_first() -> None:
    choices = choices_for(replace(sample(), passages=1_000_000))
    assert choices.large
    assert (list(choices.specs), choices.first_picked) == ([*USUAL, "BM25 words"], ("BM25",))


def test_finished_trainings_appear_by_themselves_and_unfinished_ones_do_not() -> None:
    data = sample()
    finished(BI_ENCODER, "나의 모델", data)
    finished(CROSS_ENCODER, "reader", data)
    about = (data.key, data.name, data.fingerprint)
    create_run(new_plan(BI_ENCODER, "unfinished", about, SplitOptions(), BiEncoderOptions.suited_to()))
    choices = choices_for(data)
    mix = "Best mix · trained"
    assert set(choices.trained) == {"Dense · 나의 모델", "Hybrid · 나의 모델", "Reranked · reader", mix}
    assert choices.first_picked[-2:] == ("Reranked · reader", mix)


def test_the_best_mix_takes_in_the_newest_search_of_each_kind_trained_on_the_same_split() -> None:
    data = sample()
    finished(BI_ENCODER, "of another split", data, seed=7)
    for name in ("one", "another"):  # in the same second: either is the newest
        finished(BI_ENCODER, name, data)
    finished(SPARSE_ENCODER, "terms", data)
    choices = choices_for(data)
    mix = choices.specs["Best mix · trained"]
    newest = [name for name in choices.trained if name in ("Dense · one", "Dense · another")][-1]
    assert mix.parts == (*choices.specs["Best mix"].parts, newest, "Sparse · terms")
    assert choices.experiment(data, [mix.name], Part.TEST).seed == 0
    unasked = choices_for(replace(data, questions=99))
    assert not [name for name in unasked.specs if name.startswith("Best mix")]


def test_a_trained_sparse_encoder_searches_alone_and_with_bm25() -> None:
    data = sample()
    run = finished(SPARSE_ENCODER, "terms", data)
    choices = choices_for(data)
    assert choices.specs["Sparse · terms"] == SparseSpec(name="Sparse · terms", model=run.id)
    assert choices.specs["Hybrid · terms"].parts == ("BM25", "Sparse · terms")
    assert choices.first_picked[-2:] == ("Sparse · terms", "Best mix · trained")


def test_names_stay_different_and_an_experiment_lists_what_is_wrapped_before_what_wraps_it() -> None:
    assert free_name("Dense", {}) == "Dense"
    assert free_name("Dense", choices_for(sample()).specs) == "Dense (2)"
    experiment = choices_for(sample()).experiment(sample(), ["Hybrid"], Part.ALL)
    assert [spec.name for spec in experiment.retriever] == ["BM25", "Dense", "Hybrid"]
    assert Experiment.model_validate_json(experiment.model_dump_json()) == experiment


def test_a_trained_model_is_judged_on_the_split_it_was_trained_with() -> None:
    data = sample()
    finished(BI_ENCODER, "seeded", data, seed=7)
    experiment = choices_for(data).experiment(data, ["BM25", "Dense · seeded"], Part.TEST)
    assert experiment.seed == 7


def test_an_imported_run_and_what_wraps_it_cannot_be_asked_something_new() -> None:
    data = sample()
    add(data.fingerprint, RunSpec(name="Run", path="/x.trec"))
    add(data.fingerprint, HybridSpec(name="Both", of=("BM25", "Run")))
    choices = choices_for(data)
    assert {"Run", "Both"} <= choices.specs.keys()
    assert choices.searchable == [*USUAL, "BM25 words"]


@pytest.fixture(params=["en", "ko"])
def spoken(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(st, "query_params", {"lang": request.param})
    return str(request.param)


M3, RANKER, BOTH = "BAAI/bge-m3", "BAAI/bge-reranker-base", ("BM25", "Dense")


@pytest.mark.parametrize(
    ("spec", "en", "ko"),
    [
        (SPECS["BM25"], "morphemes (Kiwi) and character bigrams", "형태소(Kiwi)와 글자 바이그램"),
        (BM25Spec(name="Words", analyzer=Analyzer.WORD), "split into words", "토큰 단위: 어절"),
        (BM25Spec(name="A", feedback_passages=5), "from the top 5 passages (RM3)", "지문 5개의 단어로 질문 확장(RM3)"),
        (BM25Spec(name="Own", dictionary="dictionary:x"), "with a dictionary", "사전 사용"),
        (WindowedBM25Spec(name="Windows", sentences=3), "3 sentences at a time", "문장 3개씩"),
        (BM25Spec(name="Pairs", pairs=True), "(Kiwi), two adjacent terms as one", "(Kiwi), 이어진 두 단어를 한 단위로"),
        (SPECS["Dense"], "multilingual-e5-small, untrained", "multilingual-e5-small, 학습 전"),
        (DenseSpec(name="LSA"), "(LSA), untrained", "(LSA), 학습 전"),
        (DenseSpec(name="Hub", model=M3), f"with {M3}", M3),
        (SparseSpec(name="Sparse", model="a/splade"), "weighted by a model, a/splade", "중요도로 찾음. a/splade"),
        (RunSpec(name="Run", path="/x.trec"), "results of another engine", "다른 엔진의 검색 결과"),
        (HybridSpec(name="Hybrid", of=BOTH), "BM25 + Dense", "BM25 + Dense 결과를 결합"),
        (HybridSpec(name="W", of=BOTH, weights=(0.3, 0.7)), "BM25 × 0.3 + Dense × 0.7", "BM25 × 0.3 + Dense × 0.7"),
        (
            RerankSpec(name="Reranked", first="BM25", model=RANKER),
            f"reranks BM25's top 20 with {RANKER}",
            f"BM25 상위 20개를 모델로 재정렬. {RANKER}",
        ),
        (
            MilvusSpec(name="Milvus", search=Search.DENSE, model=M3),
            f"searches in Milvus: finds passages of similar meaning with {M3}",
            "Milvus에서 검색.",
        ),
        (
            MilvusSpec(name="Both", search=Search.HYBRID, model=M3),
            f"Milvus: fuses the results of BM25 + {M3}",
            f"BM25 + {M3} 결과를 결합",
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Spec) else "",
)
def test_a_retriever_of_every_kind_says_what_it_does(spec: Spec, en: str, ko: str, spoken: str) -> None:
    line = method_line(spec, CHOICES)
    assert line.startswith(f"{retriever_name(spec.name)}: ")
    assert {"en": en, "ko": ko}[spoken] in line


def test_a_trained_model_is_told_by_its_base_and_the_name_it_was_given(spoken: str) -> None:
    plan = new_plan(BI_ENCODER, "Bi-encoder 1", ("k", "n", "f"), SplitOptions(), BiEncoderOptions(base=E5))
    run = create_run(plan)
    run.write_status(replace(run.status(), state=State.DONE))
    spec, said = DenseSpec(name="Dense · 1", model=run.id), {"en": "trained here (", "ko": "여기서 학습("}
    assert f"multilingual-e5-small, {said[spoken]}Bi-encoder 1)" in method_line(spec, CHOICES)
    read = replace(CHOICES, plans={run.id: replace(plan, name="as it was read")})
    assert f"multilingual-e5-small, {said[spoken]}as it was read)" in method_line(spec, read)


def test_where_the_analyzer_is_not_known_the_line_says_that_it_suits_the_language(spoken: str) -> None:
    said = {"en": "split into terms for the language", "ko": "언어에 맞춤"}
    assert said[spoken] in method_line(SPECS["BM25"], replace(CHOICES, analyzer=Analyzer.AUTO))


@pytest.mark.usefixtures("spoken")
def test_a_kind_that_was_added_to_the_program_is_called_by_its_kind() -> None:
    class Letters(RunSpec):
        kind: str = "letters"  # type: ignore[assignment]

    assert method_line(Letters(name="Mine", path="x"), CHOICES) == "Mine: letters"


def page() -> None:
    import streamlit as st

    from mrc_workbench.workbench.views.names import kind_words, set_name

    for text in ("Korean sample", "mine"):
        st.text(set_name(text))
    for kind in ("paraphrase", "several-sentences", "year", ""):
        st.text(kind_words(kind))


def test_in_korean_and_in_english() -> None:
    korean, english = ([text.value for text in opened(page, lang=language).text] for language in ("ko", "en"))
    assert korean == ["한국어 샘플", "mine", "바꿔 쓴 표현", "여러 문장 종합", "year", ""]
    assert english == ["Korean sample", "mine", "Paraphrased", "Multi-sentence", "year", ""]


def test_every_kind_of_the_sample_has_words() -> None:
    from mrc_workbench.workbench.views.ui.words import LANGUAGES, catalog

    kinds = {question.kind for question in find("sample").questions}
    for language in LANGUAGES:
        assert {f"question_kind.{kind}" for kind in kinds} <= catalog(language).keys()


def before_there_was_a_choice(run: Run) -> None:
    """Make the file of a run what an earlier version wrote, which knew strict splits alone."""
    path = run.folder / "run.json"
    plan = json.loads(path.read_text(encoding="utf-8"))
    del plan["split"]["strict"]
    path.write_text(json.dumps(plan), encoding="utf-8")


@pytest.mark.parametrize("strict", [True, False])
def test_a_model_of_an_earlier_version_is_judged_on_its_strict_split_where_it_differs(strict: bool) -> None:
    """The questions it was trained on would be test questions of the split that is drawn now."""
    data = keep(chain(60)) if strict else sample()
    before_there_was_a_choice(finished(BI_ENCODER, "old", data))
    choices = choices_for(data)
    name = next(iter(choices.trained))
    assert choices.experiment(data, [name], Part.TEST).split_options == SplitOptions(strict=strict)
    assert choices.experiment(data, ["BM25"], Part.TEST).split_options == SplitOptions()
