import numpy as np
import pytest

from mrc_workbench.data.generate import MakerOptions, make_questions
from mrc_workbench.data.records import Maker, Passage, Question, QuestionSet
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.store import find
from mrc_workbench.data.text import analysis
from mrc_workbench.data.text.analysis import tokens_of
from mrc_workbench.retrieval.lexical.bm25 import BM25, BM25Options
from mrc_workbench.retrieval.measures import evaluate
from mrc_workbench.retrieval.rankings import NOT_FOUND
from mrc_workbench.training.options import TrainingError
from mrc_workbench.training.ranker_options import BiEncoderOptions, CrossEncoderOptions
from mrc_workbench.training.recipes import material as material_module
from mrc_workbench.training.recipes.examples import encoder_examples, mine
from tests.doubles import small_set
from tests.training.worlds import material_of, misleading_set


@pytest.fixture(scope="module")
def sample() -> QuestionSet:
    return find("sample")


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_nothing_of_a_test_or_validation_article_is_trained_on(sample: QuestionSet, seed: int) -> None:
    options = CrossEncoderOptions(negatives=10, evaluation_limit=5)
    material = material_of(sample, SplitOptions(0.2, 0.3, seed), options)
    titles = {passage.id: passage.title for passage in sample.passages}
    learned = {titles[id_] for question in material.train.questions for id_ in question.relevant}
    asked_later = {titles[id_] for question in sample.questions for id_ in question.relevant} - learned
    assert (len(learned), len(asked_later)) == (10, 10)
    assert {titles[id_] for q in material.validation.questions for id_ in q.relevant} <= asked_later
    title_of_row = list(titles.values())
    assert {title_of_row[row] for row in material.positive_pairs()[1]} == learned
    assert {title_of_row[row] for row in np.flatnonzero(material.learnable)} == learned
    drawn = mine(options, material).rows
    assert {title_of_row[row] for row in drawn[drawn != NOT_FOUND]} <= learned


def test_a_passage_that_only_training_questions_could_ask_about_may_be_learned() -> None:
    passages = (*small_set().passages, Passage("p6", "아무도 묻지 않는 글"))
    material = material_of(QuestionSet("one more", passages, small_set().questions), SplitOptions(0.25, 0.25, seed=1))
    held_out = {id_ for q in small_set().questions if q not in material.train.questions for id_ in q.relevant}
    allowed = {passage.id for passage, free in zip(passages, material.learnable, strict=True) if free}
    assert allowed == {passage.id for passage in passages} - held_out
    assert held_out
    assert "p6" in allowed


def test_positive_pairs_by_hand() -> None:
    material = material_of(small_set(), SplitOptions(0.25, 0.25, seed=1))
    texts = dict(zip((passage.id for passage in small_set().passages), material.texts, strict=True))
    assert texts["p1"] == "세종\n세종은 한글을 만든 왕이다"
    assert texts["p5"] == "도서관은 월요일에 문을 닫는다"
    expected = [(q.text, texts[id_]) for q in material.train.questions for id_ in q.relevant]
    questions, passages = material.positive_pairs()
    pairs = [(material.train.questions[q].text, material.texts[p]) for q, p in zip(questions, passages, strict=True)]
    assert sorted(pairs) == sorted(expected)
    assert len(material.train.questions) >= 2
    # a question with two passages is two pairs
    material = material_of(small_set(), SplitOptions(0.25, 0.0, seed=0))
    row = [question.id for question in material.train.questions].index("q6")
    questions, passages = material.positive_pairs()
    assert sorted(passages[questions == row]) == [1, 2]


def test_questions_with_the_same_words_share_their_passages() -> None:
    world = misleading_set()
    twins = [Question(f"twin{i}", f" {world.questions[i].text} ", (), (f"p{(i + 5) % 20}",)) for i in range(20)]
    material = material_of(QuestionSet("twins", world.passages, (*world.questions, *twins)), SplitOptions(0.1, 0.1))
    asked = material.train.questions
    for row, question in enumerate(asked):
        same = [other for other in asked if other.text.strip() == question.text.strip()]
        expected = {material.question_set.row_of_passage[id_] for other in same for id_ in other.relevant}
        assert set(material.relevance[[row]].indices.tolist()) == expected
    assert max(np.diff(material.relevance.indptr)) == 2
    assert len(material.positive_pairs()[0]) == len(asked)  # no twin learns the other's passage


def test_titles_are_left_away_where_asked() -> None:
    material = material_of(small_set(), SplitOptions(0.25, 0.25, seed=1), BiEncoderOptions(title=False))
    assert material.texts == [passage.text for passage in small_set().passages]
    assert material.first_stage.options.title is False


@pytest.mark.parametrize(
    ("split", "numbers"),
    [(SplitOptions(0.0, 0.2), "16 training and 0 validation"), (SplitOptions(0.95, 0.0), "1 training and 19 valid")],
)
def test_too_few_questions_are_told_with_numbers(split: SplitOptions, numbers: str) -> None:
    told = f"^{numbers}.* questions are too few: use more articles, or change the split"
    with pytest.raises(TrainingError, match=told) as refused:
        material_of(misleading_set(), split)
    assert refused.value.code == "too_few"


def test_measuring_bm25_analyzes_no_question_that_the_comparison_analyzed(
    sample: QuestionSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    material = material_of(sample)
    tokens_of(material.first_stage.analysis, [question.text for question in sample.questions])
    monkeypatch.setattr(analysis, "analyze", lambda *_: pytest.fail("analyzed again"))
    assert material.first_stage_scores.figures()["validation_recall@10"] > 0.5


def test_measuring_is_limited_to_so_many_questions(sample: QuestionSet) -> None:
    whole, limited, again, other = (
        [q.id for q in material_of(sample, SplitOptions(seed=seed), options).validation.questions]
        for seed, options in (
            (0, CrossEncoderOptions(evaluation_limit=0)),
            (0, CrossEncoderOptions(evaluation_limit=7)),
            (0, BiEncoderOptions(evaluation_limit=7)),
            (0, CrossEncoderOptions(evaluation_limit=48)),
        )
    )
    assert len(whole) == 48
    assert len(limited) == 7
    assert limited == again == [id_ for id_ in whole if id_ in limited]
    assert limited != whole[:7]
    assert other == whole


def test_test_questions_are_asked_only_where_that_is_wanted_and_so_many_at_most(
    sample: QuestionSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = material_of(sample)
    assert every.measure(every.first_stage).test is None
    reached = every.measure(every.first_stage, tested=True)
    assert reached.test is not None
    assert every.test is not None
    assert len(every.test.questions) == len(reached.test.per_question["ndcg@10"]) == 96
    monkeypatch.setattr(material_module, "_TESTED", 10)
    some = material_of(sample).test
    assert some is not None
    assert len(some.questions) == 10
    assert set(some.questions) < set(every.test.questions)
    material = material_of(sample, SplitOptions(0.2, 0.0))
    assert material.test is None
    assert material.measure(material.first_stage, tested=True).test is None


def test_what_was_kept_is_read_again_with_test_questions_or_without(sample: QuestionSet) -> None:
    material = material_of(sample)
    for tested in (True, False):
        kept = material.measure(material.first_stage, tested=tested).kept()
        assert ("test" in kept) is tested
        again = material.measurement(kept)
        assert again is not None
        assert again.kept() == kept
    assert material.measurement({"validation": kept["validation"]}) is None


def test_as_many_training_questions_are_measured_up_to_a_hundred(sample: QuestionSet) -> None:
    material = material_of(sample)
    assert (len(material.validation.questions), len(material.sample.questions)) == (48, 48)
    assert set(material.sample.questions) < set(material.train.questions)
    assert material.measured.questions == material.validation.questions + material.sample.questions
    many = material_of(misleading_set(400), SplitOptions(0.4, 0.1))
    assert (len(many.validation.questions), len(many.sample.questions)) == (160, 100)
    few = material_of(misleading_set(), SplitOptions(0.8, 0.0))
    assert few.sample.questions == few.train.questions


def test_both_kinds_of_questions_are_scored_as_each_alone(sample: QuestionSet) -> None:
    material = material_of(sample)
    reached = material.first_stage_scores
    for asked, scores in ((material.validation, reached.validation), (material.sample, reached.training)):
        found = material.first_stage.search([question.text for question in asked.questions], 10)
        alone = evaluate(found, asked, (1, 5, 10))
        for name, values in scores.per_question.items():
            np.testing.assert_array_equal(values, alone.per_question[name])
    assert reached.figures()["training_ndcg@10"] == reached.training.means()["ndcg@10"]
    assert reached.figures()["validation_ndcg@10"] == reached.validation.means()["ndcg@10"]


def test_bm25_is_measured_as_the_retrieval_room_measures(sample: QuestionSet) -> None:
    material = material_of(sample)
    bm25 = BM25("BM25", sample.passages, BM25Options())
    found = bm25.search([question.text for question in material.validation.questions], 10).indices
    rows = [sample.row_of_passage[q.relevant[0]] for q in material.validation.questions]
    ranks = [row.tolist().index(wanted) + 1 if wanted in row else 0 for row, wanted in zip(found, rows, strict=True)]
    expected = {
        "recall@1": np.mean([rank == 1 for rank in ranks]),
        "recall@5": np.mean([0 < rank <= 5 for rank in ranks]),
        "recall@10": np.mean([rank > 0 for rank in ranks]),
        "mrr@10": np.mean([1 / rank if rank else 0 for rank in ranks]),
        "ndcg@10": np.mean([1 / np.log2(rank + 1) if rank else 0 for rank in ranks]),
    }
    assert material.first_stage_scores.validation.means() == pytest.approx(expected, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("by", [Maker.SENTENCE, Maker.TITLE])
def test_no_passage_shows_what_asks_for_it(sample: QuestionSet, by: Maker) -> None:
    made = make_questions(sample, MakerOptions(by=by, per_passage=2, taken_out=1.0)).question_set
    options = BiEncoderOptions()
    material = material_of(made, SplitOptions(), options)
    columns, _ = encoder_examples(options, material)
    pairs = list(zip(columns["anchor"], columns["positive"], strict=True))
    assert len(pairs) > 100
    first_lines = [(question, positive.split("\n")[0]) for question, positive in pairs]
    if by is Maker.TITLE:
        assert not any(question == line for question, line in first_lines)
    else:
        assert not any(question in positive for question, positive in pairs)
        assert all(line in sample.passages.titles for _, line in first_lines)
    # what it is measured on is read so too: where its own words stand in a passage, BM25 finds nearly all
    whole = BM25("whole", sample.passages, BM25Options())
    score = material.first_stage_scores.validation.means()["ndcg@10"]
    assert score < material.measure(whole).validation.means()["ndcg@10"]


@pytest.mark.slow
def test_questions_made_of_a_set_are_split_as_those_of_the_set(sample: QuestionSet) -> None:
    made = make_questions(sample, MakerOptions()).question_set
    asked, of_made = (material_of(one, SplitOptions(), BiEncoderOptions()) for one in (sample, made))
    assert asked.learnable.tolist() == of_made.learnable.tolist()
