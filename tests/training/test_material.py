import numpy as np
import pytest

from data.records import QuestionSet
from data.split import SplitOptions
from data.store import find
from retrieval.bm25 import BM25, BM25Options
from tests.doubles import small_set
from tests.training.worlds import misleading_set
from training.cross_encoder import labelled_pairs
from training.material import Material
from training.options import BiEncoderOptions, CrossEncoderOptions, Kind, TrainingOptions
from training.runs import new_plan


def material_of(
    question_set: QuestionSet, split: SplitOptions | None = None, options: TrainingOptions | None = None
) -> Material:
    data = ("", question_set.name, question_set.fingerprint)
    return Material.of(
        new_plan(Kind.CROSS_ENCODER, "", data, split or SplitOptions(), options or CrossEncoderOptions()),
        question_set,
    )


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
    title_of_text = dict(zip(material.texts, titles.values(), strict=True))
    assert {title_of_text[passage] for _, passage in material.positive_pairs()} == learned
    assert {title_of_text[passage] for passage in labelled_pairs(options, material)["passage"]} <= learned


def test_positive_pairs_by_hand() -> None:
    material = material_of(small_set(), SplitOptions(0.25, 0.25, seed=1))
    texts = {passage.id: text for passage, text in zip(small_set().passages, material.texts, strict=True)}
    assert texts["p1"] == "세종\n세종은 한글을 만든 왕이다"
    assert texts["p5"] == "도서관은 월요일에 문을 닫는다"
    expected = [(q.text, texts[id_]) for q in material.train.questions for id_ in q.relevant]
    assert sorted(material.positive_pairs()) == sorted(expected)
    assert len(material.train.questions) >= 2


def test_a_question_with_two_passages_is_two_pairs() -> None:
    everything = material_of(small_set(), SplitOptions(0.25, 0.0, seed=0))
    pairs = [pair for pair in everything.positive_pairs() if pair[0] == "서울과 한강을 말하는 글은?"]
    assert len(pairs) == 2
    assert len({passage for _, passage in pairs}) == 2


def test_titles_are_left_away_where_asked() -> None:
    material = material_of(small_set(), SplitOptions(0.25, 0.25, seed=1), BiEncoderOptions(title=False))
    assert material.texts == [passage.text for passage in small_set().passages]
    assert material.first_stage.options.title is False


@pytest.mark.parametrize(
    ("split", "numbers"),
    [(SplitOptions(0.0, 0.2), "16 training and 0 validation"), (SplitOptions(0.95, 0.0), "1 training and 19 valid")],
)
def test_too_few_questions_are_told_with_numbers(split: SplitOptions, numbers: str) -> None:
    with pytest.raises(ValueError, match=f"^{numbers}.* questions are too few: use more articles, or change the split"):
        material_of(misleading_set(), split)


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
    assert material.first_stage_measures == pytest.approx(expected, abs=1e-12)


def test_labels(sample: QuestionSet) -> None:
    options = CrossEncoderOptions(negatives=4, depth=20)
    material = material_of(sample, options=options)
    pairs = labelled_pairs(options, material)
    assert sorted(pairs) == ["label", "passage", "question"]
    row_of_text = {text: row for row, text in enumerate(material.texts)}
    by_text = {question.text: question for question in material.train.questions}
    assert len(by_text) == len(material.train.questions)
    first_twenty = dict(zip(by_text, material.candidates(material.train, 20).indices.tolist(), strict=True))
    seen = list(zip(pairs["question"], pairs["passage"], pairs["label"], strict=True))
    for question, passage, label in seen:
        row = row_of_text[passage]
        assert label == float(sample.passages[row].id in by_text[question].relevant)
        assert label == 1 or row in first_twenty[question]
    assert len(set(seen)) == len(seen)
    positives = [question for question, _, label in seen if label == 1]
    assert sorted(positives) == sorted(by_text)
    counts = [len(seen_of) for seen_of in (
        [p for q, p, label in seen if q == question and label == 0] for question in by_text
    )]  # fmt: skip
    assert max(counts) == 4
    assert np.mean(counts) > 3.5
    assert pairs == labelled_pairs(options, material)
