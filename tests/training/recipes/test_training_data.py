import numpy as np
import pytest

from mrc_workbench.data.generate import GenerationOptions, generate_questions
from mrc_workbench.data.records import Passage, Question, QuestionGenerator, QuestionSet
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.store import find
from mrc_workbench.data.text import analysis
from mrc_workbench.data.text.analysis import tokens_of
from mrc_workbench.retrieval.lexical.bm25 import BM25, BM25Options
from mrc_workbench.retrieval.measures import evaluate
from mrc_workbench.retrieval.rankings import NOT_FOUND
from mrc_workbench.training.options import TrainingError
from mrc_workbench.training.ranker_options import BiEncoderOptions, CrossEncoderOptions
from mrc_workbench.training.recipes import training_data as training_data_module
from mrc_workbench.training.recipes.examples import encoder_examples, mine_negatives
from tests.doubles import small_set
from tests.training.worlds import make_training_data, measures_of_ranks, misleading_set


@pytest.fixture(scope="module")
def sample() -> QuestionSet:
    return find("sample")


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_excludes_test_and_validation_articles_from_training(sample: QuestionSet, seed: int) -> None:
    options = CrossEncoderOptions(negatives=10, evaluation_limit=5)
    data = make_training_data(sample, SplitOptions(0.2, 0.3, seed), options)
    titles = {passage.id: passage.title for passage in sample.passages}
    learned = {titles[id_] for question in data.train.questions for id_ in question.relevant}
    held_out_titles = {titles[id_] for question in sample.questions for id_ in question.relevant} - learned
    assert (len(learned), len(held_out_titles)) == (10, 10)
    assert {titles[id_] for q in data.validation.questions for id_ in q.relevant} <= held_out_titles
    title_of_row = list(titles.values())
    assert {title_of_row[row] for row in data.positive_pairs()[1]} == learned
    assert {title_of_row[row] for row in np.flatnonzero(data.is_trainable)} == learned
    negatives = mine_negatives(options, data).rows
    assert {title_of_row[row] for row in negatives[negatives != NOT_FOUND]} <= learned


def test_allows_unasked_passages_of_training_articles() -> None:
    passages = (*small_set().passages, Passage("p6", "아무도 묻지 않는 글"))
    question_set = QuestionSet("one more", passages, small_set().questions)
    data = make_training_data(question_set, SplitOptions(0.25, 0.25, seed=1))
    held_out = {id_ for q in small_set().questions if q not in data.train.questions for id_ in q.relevant}
    allowed = {passage.id for passage, free in zip(passages, data.is_trainable, strict=True) if free}
    assert allowed == {passage.id for passage in passages} - held_out
    assert held_out
    assert "p6" in allowed


def test_makes_positive_pairs() -> None:
    data = make_training_data(small_set(), SplitOptions(0.25, 0.25, seed=1))
    texts = dict(zip((passage.id for passage in small_set().passages), data.texts, strict=True))
    assert texts["p1"] == "세종\n세종은 한글을 만든 왕이다"
    assert texts["p5"] == "도서관은 월요일에 문을 닫는다"
    expected = [(q.text, texts[id_]) for q in data.train.questions for id_ in q.relevant]
    questions, passages = data.positive_pairs()
    pairs = [(data.train.questions[q].text, data.texts[p]) for q, p in zip(questions, passages, strict=True)]
    assert sorted(pairs) == sorted(expected)
    assert len(data.train.questions) >= 2
    # a question with two passages is two pairs
    data = make_training_data(small_set(), SplitOptions(0.25, 0.0, seed=0))
    row = [question.id for question in data.train.questions].index("q6")
    questions, passages = data.positive_pairs()
    assert sorted(passages[questions == row]) == [1, 2]


def test_identical_questions_share_relevant_passages() -> None:
    world = misleading_set()
    twins = [Question(f"twin{i}", f" {world.questions[i].text} ", (), (f"p{(i + 5) % 20}",)) for i in range(20)]
    data = make_training_data(QuestionSet("twins", world.passages, (*world.questions, *twins)), SplitOptions(0.1, 0.1))
    train_questions = data.train.questions
    for row, question in enumerate(train_questions):
        same = [other for other in train_questions if other.text.strip() == question.text.strip()]
        expected = {data.question_set.row_of_passage[id_] for other in same for id_ in other.relevant}
        assert set(data.relevance[[row]].indices.tolist()) == expected
    assert max(np.diff(data.relevance.indptr)) == 2
    assert len(data.positive_pairs()[0]) == len(train_questions)  # no twin learns the other's passage


def test_omits_titles_if_disabled() -> None:
    data = make_training_data(small_set(), SplitOptions(0.25, 0.25, seed=1), BiEncoderOptions(title=False))
    assert data.texts == [passage.text for passage in small_set().passages]
    assert data.first_stage.options.title is False


@pytest.mark.parametrize(
    ("split", "numbers"),
    [(SplitOptions(0.0, 0.2), "16 training and 0 validation"), (SplitOptions(0.95, 0.0), "1 training and 19 valid")],
)
def test_reports_counts_of_too_few_questions(split: SplitOptions, numbers: str) -> None:
    message = f"^{numbers}.* questions are too few: use more articles, or change the split"
    with pytest.raises(TrainingError, match=message) as refused:
        make_training_data(misleading_set(), split)
    assert refused.value.code == "too_few"


def test_bm25_baseline_reuses_analyzed_questions(sample: QuestionSet, monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_training_data(sample)
    tokens_of(data.first_stage.analysis, [question.text for question in sample.questions])
    monkeypatch.setattr(analysis, "analyze", lambda *_: pytest.fail("analyzed again"))
    assert data.first_stage_scores.metrics()["validation_recall@10"] > 0.5


def test_limits_measured_questions(sample: QuestionSet) -> None:
    limits = [(CrossEncoderOptions, 0), (CrossEncoderOptions, 7), (BiEncoderOptions, 7), (CrossEncoderOptions, 48)]
    options = [kind(evaluation_limit=limit) for kind, limit in limits]
    data = [make_training_data(sample, options=limited_options) for limited_options in options]
    whole, limited, again, other = ([question.id for question in part.validation.questions] for part in data)
    assert len(whole) == 48
    assert len(limited) == 7
    assert limited == again == [id_ for id_ in whole if id_ in limited]
    assert limited != whole[:7]
    assert other == whole


def test_measures_limited_test_questions_on_request(sample: QuestionSet, monkeypatch: pytest.MonkeyPatch) -> None:
    every = make_training_data(sample)
    assert every.evaluate(every.first_stage).test is None
    reached = every.evaluate(every.first_stage, with_test=True)
    assert reached.test is not None
    assert every.test is not None
    assert len(every.test.questions) == len(reached.test.per_question["ndcg@10"]) == 96
    monkeypatch.setattr(training_data_module, "_MAX_TEST_QUESTIONS", 10)
    some = make_training_data(sample).test
    assert some is not None
    assert len(some.questions) == 10
    assert set(some.questions) < set(every.test.questions)
    data = make_training_data(sample, SplitOptions(0.2, 0.0))
    assert data.test is None
    assert data.evaluate(data.first_stage, with_test=True).test is None


def test_reads_stored_measurements_with_or_without_test(sample: QuestionSet) -> None:
    data = make_training_data(sample)
    for tested in (True, False):
        stored = data.evaluate(data.first_stage, with_test=tested).to_dict()
        assert ("test" in stored) is tested
        again = data.read_measurement(stored)
        assert again is not None
        assert again.to_dict() == stored
    assert data.read_measurement({"validation": stored["validation"]}) is None


def test_samples_at_most_100_training_questions(sample: QuestionSet) -> None:
    data = make_training_data(sample)
    assert (len(data.validation.questions), len(data.sample.questions)) == (48, 48)
    assert set(data.sample.questions) < set(data.train.questions)
    assert data.evaluation_questions.questions == data.validation.questions + data.sample.questions
    many = make_training_data(misleading_set(400), SplitOptions(0.4, 0.1))
    assert (len(many.validation.questions), len(many.sample.questions)) == (160, 100)
    few = make_training_data(misleading_set(), SplitOptions(0.8, 0.0))
    assert few.sample.questions == few.train.questions


def test_scores_validation_and_training_separately(sample: QuestionSet) -> None:
    data = make_training_data(sample)
    reached = data.first_stage_scores
    for questions, scores in ((data.validation, reached.validation), (data.sample, reached.training)):
        rankings = data.first_stage.search([question.text for question in questions.questions], 10)
        alone = evaluate(rankings, questions, (1, 5, 10))
        for name, values in scores.per_question.items():
            np.testing.assert_array_equal(values, alone.per_question[name])
    assert reached.metrics()["training_ndcg@10"] == reached.training.means()["ndcg@10"]
    assert reached.metrics()["validation_ndcg@10"] == reached.validation.means()["ndcg@10"]


def test_bm25_scores_match_retrieval_evaluation(sample: QuestionSet) -> None:
    data = make_training_data(sample)
    bm25 = BM25("BM25", sample.passages, BM25Options())
    rankings = bm25.search([question.text for question in data.validation.questions], 10).indices
    rows = [sample.row_of_passage[q.relevant[0]] for q in data.validation.questions]
    pairs = zip(rankings.tolist(), rows, strict=True)
    ranks = [ranking.index(relevant_row) + 1 if relevant_row in ranking else 0 for ranking, relevant_row in pairs]
    assert data.first_stage_scores.validation.means() == pytest.approx(measures_of_ranks(ranks), abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("by", [QuestionGenerator.SENTENCE, QuestionGenerator.TITLE])
def test_passages_omit_text_of_synthetic_questions(sample: QuestionSet, by: QuestionGenerator) -> None:
    synthetic = generate_questions(sample, GenerationOptions(by=by, per_passage=2, removal_fraction=1.0)).question_set
    options = BiEncoderOptions()
    data = make_training_data(synthetic, SplitOptions(), options)
    columns, _ = encoder_examples(options, data)
    pairs = list(zip(columns["anchor"], columns["positive"], strict=True))
    assert len(pairs) > 100
    first_lines = [(question, positive.split("\n")[0]) for question, positive in pairs]
    if by is QuestionGenerator.TITLE:
        assert not any(question == line for question, line in first_lines)
    else:
        assert not any(question in positive for question, positive in pairs)
        assert all(line in sample.passages.titles for _, line in first_lines)
    # evaluation reads the same texts: with the source sentences, BM25 would find nearly all
    whole = BM25("whole", sample.passages, BM25Options())
    score = data.first_stage_scores.validation.means()["ndcg@10"]
    assert score < data.evaluate(whole).validation.means()["ndcg@10"]


@pytest.mark.slow
def test_splits_synthetic_questions_like_their_source(sample: QuestionSet) -> None:
    synthetic = generate_questions(sample, GenerationOptions()).question_set
    source_data, synthetic_data = (make_training_data(question_set) for question_set in (sample, synthetic))
    assert source_data.is_trainable.tolist() == synthetic_data.is_trainable.tolist()
