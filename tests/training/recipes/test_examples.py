"""Training reads the window with the answer of a long passage, and short passages as a whole."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.data.store import find
from mrc_workbench.models.encoders import BiEncoder, CrossEncoderScorer
from mrc_workbench.models.sources import find_model
from mrc_workbench.models.windows import Window, WindowOptions
from mrc_workbench.retrieval.dense import Dense
from mrc_workbench.training.base import Columns
from mrc_workbench.training.options import TrainingError
from mrc_workbench.training.ranker_options import (
    BI_ENCODER,
    CROSS_ENCODER,
    BiEncoderObjective,
    BiEncoderOptions,
    CrossEncoderObjective,
    CrossEncoderOptions,
)
from mrc_workbench.training.recipes.examples import cross_encoder_examples, encoder_examples
from mrc_workbench.training.recipes.passage_windows import PassageWindows, TeacherScores
from mrc_workbench.training.recipes.rankers import BiEncoderRecipe, CrossEncoderRecipe
from mrc_workbench.training.runs import Run
from tests.doubles import PASSAGES, QUESTIONS, small_set
from tests.tiny_models import SENTENCES
from tests.training import worlds

pytestmark = pytest.mark.slow

TEXTS = [f"{passage.title}\n{passage.text}" if passage.title else passage.text for passage in PASSAGES]
QUERIES = [question.text for question in QUESTIONS]
# the only negatives of the first five questions: all passages but their own, and but p2 where the answer is 서울
OTHERS = [{1, 2, 3, 4}, {0, 2, 3, 4}, {0, 3, 4}, {0, 1, 2, 4}, {0, 1, 2, 3}]
# each question with its passage, the last one with two
PAIRS = [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 1), (5, 2)]
IN_BATCH = [BiEncoderObjective.MEGA_BATCH_MARGIN, BiEncoderObjective.MULTIPLE_NEGATIVES, BiEncoderObjective.GIST]
LISTS = [CrossEncoderObjective.LAMBDA, CrossEncoderObjective.RANKNET, CrossEncoderObjective.LISTNET]


def bi_encoder(objective: BiEncoderObjective, negatives: int, **more: Any) -> BiEncoderOptions:
    return BiEncoderOptions(base="folder", objective=objective, negatives=negatives, **more)


def rows(texts: Sequence[str]) -> list[int]:
    return [TEXTS.index(text) for text in texts]


def rows_of_column(columns: Columns, name: str) -> list[int]:
    return [QUERIES.index(text) for text in columns[name]]


@pytest.mark.parametrize("objective", IN_BATCH)
def test_makes_pairs_of_question_and_passage(objective: BiEncoderObjective) -> None:
    columns, examples = encoder_examples(bi_encoder(objective, 0), worlds.make_unsplit_data(small_set()))
    assert list(columns) == ["anchor", "positive"]
    assert list(zip(rows_of_column(columns, "anchor"), rows(columns["positive"]), strict=True)) == PAIRS
    assert examples.question.tolist() == [question for question, _ in PAIRS]
    assert examples.passages.tolist() == [[passage] for _, passage in PAIRS]
    assert examples.in_batch_negatives
    assert examples.relevance.nonzero()[1].tolist() == [passage for _, passage in PAIRS]


def test_puts_multiple_negatives_in_one_example() -> None:
    options = bi_encoder(BiEncoderObjective.MULTIPLE_NEGATIVES, 3)
    columns, examples = encoder_examples(options, worlds.make_unsplit_data(small_set()))
    assert list(columns) == ["anchor", "positive", "negative_1", "negative_2", "negative_3"]
    assert list(zip(rows_of_column(columns, "anchor"), rows(columns["positive"]), strict=True)) == PAIRS
    for row, (question, positive) in enumerate(PAIRS):
        negatives = rows([columns[f"negative_{n}"][row] for n in (1, 2, 3)])
        assert len({*negatives}) == 3
        assert {*negatives} <= (OTHERS[question] if question < 5 else {0, 3, 4})
        assert examples.passages[row].tolist() == [positive, *negatives]
    assert examples.in_batch_negatives


def test_drops_examples_with_missing_negatives() -> None:
    # of five passages q3 and q6 have three that could be negatives
    options = bi_encoder(BiEncoderObjective.MULTIPLE_NEGATIVES, 4)
    columns, examples = encoder_examples(options, worlds.make_unsplit_data(small_set()))
    assert rows_of_column(columns, "anchor") == examples.question.tolist() == [0, 1, 3, 4]
    with pytest.raises(TrainingError) as refused:
        encoder_examples(bi_encoder(BiEncoderObjective.MULTIPLE_NEGATIVES, 5), worlds.make_unsplit_data(small_set()))
    assert refused.value.code == "no_negatives"


@pytest.mark.parametrize("objective", [BiEncoderObjective.TRIPLET, BiEncoderObjective.GIST])
def test_triplets_hold_one_negative_each(objective: BiEncoderObjective) -> None:
    columns, examples = encoder_examples(bi_encoder(objective, 4), worlds.make_unsplit_data(small_set()))
    assert list(columns) == ["anchor", "positive", "negative_1"]
    passages = (rows(columns[name]) for name in ("positive", "negative_1"))
    seen = list(zip(rows_of_column(columns, "anchor"), *passages, strict=True))
    of_five = [(q, q, negative) for q, others in enumerate(OTHERS) for negative in others]
    of_last = [(5, positive, negative) for positive in (1, 2) for negative in (0, 3, 4)]
    assert sorted(seen) == sorted([*of_five, *of_last])
    assert [(int(q), *map(int, p)) for q, p in zip(examples.question, examples.passages, strict=True)] == seen
    assert examples.in_batch_negatives is (objective is BiEncoderObjective.GIST)


def labelled(columns: Columns) -> list[tuple[int, int, float]]:
    return list(zip(rows_of_column(columns, "question"), rows(columns["passage"]), columns["label"], strict=True))


def test_makes_labelled_pairs() -> None:
    data = worlds.make_unsplit_data(small_set())
    columns, examples = cross_encoder_examples(CrossEncoderOptions(negatives=4), data)
    assert list(columns) == ["question", "passage", "label"]
    seen = labelled(columns)
    assert [(question, row) for question, row, label in seen if label == 1] == PAIRS
    bm25_rows = data.first_stage.search(QUERIES, 20).indices.tolist()
    allowed = [*OTHERS, {0, 3, 4}]
    expected = {(q, row, 0.0) for q, ranked in enumerate(bm25_rows) for row in ranked if row in allowed[q]}
    assert {entry for entry in seen if entry[2] == 0} == expected
    assert expected
    assert len({*seen}) == len(seen)
    assert not examples.in_batch_negatives
    assert examples.passages[:, 0].tolist() == [row for _, row, _ in seen]


@pytest.mark.parametrize("objective", LISTS)
def test_makes_passage_lists_per_question(objective: CrossEncoderObjective) -> None:
    pairs = labelled(cross_encoder_examples(CrossEncoderOptions(negatives=4), worlds.make_unsplit_data(small_set()))[0])
    options = CrossEncoderOptions(negatives=4, objective=objective)
    columns, examples = cross_encoder_examples(options, worlds.make_unsplit_data(small_set()))
    assert list(columns) == ["question", "passages", "labels"]
    questions = rows_of_column(columns, "question")
    listed = [
        (question, row, label)
        for question, texts, labels in zip(questions, columns["passages"], columns["labels"], strict=True)
        for row, label in zip(rows(texts), labels, strict=True)
    ]
    with_negatives = {question for question, _, label in pairs if label == 0}
    # questions without negatives are omitted
    assert sorted(listed) == sorted(entry for entry in pairs if entry[0] in with_negatives)
    assert questions == examples.question.tolist() == sorted(with_negatives)
    assert all(labels[0] == 1 and labels[-1] == 0 for labels in columns["labels"])
    assert not examples.in_batch_negatives


@pytest.mark.parametrize("objective", [CrossEncoderObjective.BINARY_CROSS_ENTROPY, *LISTS])
def test_uses_random_negatives_without_near_misses(objective: CrossEncoderObjective) -> None:
    # no passage shares a word with another's question
    alone = worlds.make_unsplit_data(QuestionSet("alone", PASSAGES[3:], QUESTIONS[3:5]))
    _, examples = cross_encoder_examples(CrossEncoderOptions(objective=objective), alone)
    examples_with_rows = zip(examples.question.tolist(), examples.passages.tolist(), strict=True)
    pairs = {(question, row) for question, rows in examples_with_rows for row in rows if row >= 0}
    assert pairs == {(0, 0), (0, 1), (1, 0), (1, 1)}


@pytest.mark.parametrize("objective", list(CrossEncoderObjective))
def test_reports_missing_negatives(objective: CrossEncoderObjective) -> None:
    options = CrossEncoderOptions(objective=objective, teacher="starter")
    both = tuple(replace(question, relevant=("p4", "p5")) for question in QUESTIONS[3:5])
    alone = worlds.make_unsplit_data(QuestionSet("alone", PASSAGES[3:], both))
    with pytest.raises(TrainingError, match="no hard negatives are available") as refused:
        cross_encoder_examples(options, alone)
    assert refused.value.code == "no_negatives"


def test_makes_triplets_for_teacher_differences() -> None:
    options = CrossEncoderOptions(negatives=4, objective=CrossEncoderObjective.MARGIN_MSE, teacher="starter")
    data = worlds.make_unsplit_data(small_set())
    columns, examples = cross_encoder_examples(options, data)
    assert list(columns) == ["question", "positive", "negative"]
    columns["score"] = TeacherScores("starter", data, examples, differences=True).labels(lambda _: None)
    teacher = CrossEncoderScorer(find_model("starter"), TEXTS)
    scores = {q: teacher.score([(q, text) for text in TEXTS]) for q in QUERIES}
    entries = list(zip(*columns.values(), strict=True))
    for question, positive, negative, difference in entries:
        gap = scores[question][TEXTS.index(positive)] - scores[question][TEXTS.index(negative)]
        assert difference == pytest.approx(gap, abs=1e-5)
    pairs = labelled(cross_encoder_examples(CrossEncoderOptions(negatives=4), worlds.make_unsplit_data(small_set()))[0])
    negatives = {(question, row) for question, row, label in pairs if label == 0}
    assert {(QUERIES.index(q), TEXTS.index(n)) for q, _, n, _ in entries} == negatives
    own = {question: {passage for q, passage in PAIRS if q == question} for question, _ in PAIRS}
    assert all(TEXTS.index(p) in own[QUERIES.index(q)] for q, p, _, _ in entries)
    assert max(abs(difference) for *_, difference in entries) > 0.1
    assert not examples.in_batch_negatives


def test_lengths_count_question_and_longest_passage() -> None:
    _, examples = encoder_examples(
        bi_encoder(BiEncoderObjective.MULTIPLE_NEGATIVES, 3), worlds.make_unsplit_data(small_set())
    )
    for question, passages, length in zip(examples.question, examples.passages, examples.lengths, strict=True):
        assert length == len(QUERIES[question]) + max(len(TEXTS[row]) for row in passages)


def test_makes_labelled_pairs_of_sample() -> None:
    sample = find("sample")
    options = CrossEncoderOptions(negatives=4)
    data = worlds.make_training_data(sample, SplitOptions(), options)
    columns, _ = cross_encoder_examples(options, data)
    row_of_text = {text: row for row, text in enumerate(data.texts)}
    by_text = {question.text: question for question in data.train.questions}
    first_twenty = dict(zip(by_text, data.candidates(data.train, 20).indices.tolist(), strict=True))
    seen = list(zip(columns["question"], columns["passage"], columns["label"], strict=True))
    for question, passage, label in seen:
        row = row_of_text[passage]
        assert label == float(sample.passages[row].id in by_text[question].relevant)
        assert label == 1 or row in first_twenty[question]
    assert len({*seen}) == len(seen)
    assert sorted(question for question, _, label in seen if label == 1) == sorted(by_text)
    counts = [sum(q == question and label == 0 for q, _, label in seen) for question in by_text]
    assert max(counts) == 4
    assert np.mean(counts) > 3.5
    assert columns == cross_encoder_examples(options, data)[0]


WORDS = sorted({word.strip(".?") for sentence in SENTENCES for word in sentence.split()})


def long_set(n: int = 12, words: int = 300, title: str = "세종") -> QuestionSet:
    """Passages of more than twice the models' length, each with its answer at another position."""
    rng = np.random.default_rng(0)
    passages = []
    questions = []
    for row in range(n):
        text = [str(word) for word in rng.choice(WORDS, words)]
        text[(row * words) // n] = f"answer{row}x"
        passages.append(Passage(f"p{row}", " ".join(text), f"{title}{row}"))
        questions.append(Question(f"q{row}", f"{text[-1]} {text[-2]}", (f"answer{row}x",), (f"p{row}",)))
    return QuestionSet("long", tuple(passages), tuple(questions))


def spans_of(n_characters: int, size: int, stride: int, head: int) -> Iterator[Window]:
    for start in range(head, max(head + 1, n_characters - size + stride), stride):
        yield Window(head, start, min(n_characters, start + size))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=60),
    st.integers(0, 60),
    st.integers(8, 80),
    st.sampled_from(["", "제목"]),
)
def test_selects_window_with_answer(words: list[str], answer_position: int, size: int, title: str) -> None:
    words.insert(min(answer_position, len(words)), "정답낱말")
    passages = (Passage("p0", " ".join(words), title), Passage("p1", "다른 글"))
    question_set = QuestionSet("one", passages, (Question("q0", "한강은", ("정답낱말",), ("p0",)),))
    data = worlds.make_unsplit_data(question_set)
    text = data.texts[0]
    windows = list(spans_of(len(text), size, size // 2, len(title) + 1 if title else 0))
    passage_windows = PassageWindows(data, lambda _, row: [] if row else windows)
    (window_text,) = passage_windows.texts(np.array([0]), np.array([0]))
    assert "정답낱말" in window_text
    assert window_text in {window.text(text) for window in windows}
    assert window_text.startswith(f"{title}\n" if title else "")
    assert passage_windows.metadata == {"windows": {"passages": 1}}
    assert passage_windows.texts(np.array([0]), np.array([1])) == ["다른 글"]


def test_selects_window_by_bm25_without_known_answer() -> None:
    text = "한강은 서울을 지나고 가을이 오면 설악산의 단풍이 물든다"
    windows = [Window(0, 0, 12), Window(0, 6, 18), Window(0, 12, len(text))]
    passages = (Passage("p0", text), Passage("p1", f"{text} 끝"))
    questions = (Question("q0", "설악산의 단풍", (), ("p0",)), Question("q1", "서울을 지나고", ("단풍",), ("p1",)))
    data = worlds.make_unsplit_data(QuestionSet("two", passages, questions))
    passage_windows = PassageWindows(data, lambda _, __: windows)
    texts = passage_windows.texts(np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1]))
    assert texts == [windows[2].text(text), windows[0].text(text), windows[2].text(text), windows[2].text(text)]


def test_keeps_texts_that_fit_unchanged() -> None:
    data = worlds.make_unsplit_data(long_set(words=5))
    passage_windows = PassageWindows(data, lambda _, __: [])
    rows = np.arange(12)
    assert passage_windows.texts(rows, rows) == [data.texts[row] for row in rows]
    assert passage_windows.metadata == {}


def test_bi_encoder_windows_hold_answers() -> None:
    options = BiEncoderOptions(base=worlds.tiny_base(BI_ENCODER))
    of = worlds.make_training_data(long_set(), options=options)
    task = BiEncoderRecipe(options, of).build_task(find_model(options.base))
    tokenizer = task.model.tokenizer
    assert len(task.columns["positive"]) == len(of.train.questions) > 5
    for question, text in zip(task.examples.question.tolist(), task.columns["positive"], strict=True):
        assert of.train.questions[question].answers[0] in text
        assert len(tokenizer(text)["input_ids"]) <= tokenizer.model_max_length
        (own,) = of.train.questions[question].relevant
        assert text.startswith(f"세종{own.removeprefix('p')}\n")
    assert task.metadata == {"windows": {"passages": len(of.train.questions)}}
    cut_off = BiEncoderRecipe(replace(options, windows=False), of).build_task(find_model(options.base))
    assert cut_off.columns["positive"] == [of.texts[row] for row in cut_off.examples.passages[:, 0]]
    assert cut_off.metadata == {}


@pytest.mark.parametrize("objective", [CrossEncoderObjective.BINARY_CROSS_ENTROPY, CrossEncoderObjective.LISTNET])
def test_cross_encoder_windows_hold_answers(objective: CrossEncoderObjective) -> None:
    options = CrossEncoderOptions(base=worlds.tiny_base(CROSS_ENCODER), objective=objective, negatives=2)
    of = worlds.make_training_data(long_set(), options=options)
    task = CrossEncoderRecipe(options, of).build_task(find_model(options.base))
    tokenizer = task.model.tokenizer
    lists = objective is CrossEncoderObjective.LISTNET
    seen = 0
    for row, question in enumerate(task.columns["question"]):
        texts = task.columns["passages"][row] if lists else [task.columns["passage"][row]]
        labels = task.columns["labels"][row] if lists else [task.columns["label"][row]]
        for text, label in zip(texts, labels, strict=True):
            assert len(tokenizer(question, text)["input_ids"]) <= tokenizer.model_max_length
            if label:
                seen += 1
                assert of.train.questions[int(task.examples.question[row])].answers[0] in text
    assert seen == len(of.train.questions)
    assert task.metadata["windows"]["passages"] >= seen


@pytest.mark.parametrize("kind", [BI_ENCODER, CROSS_ENCODER])
def test_windows_do_not_change_training_on_short_passages(kind: str) -> None:
    from safetensors.numpy import load_file

    question_set = long_set(words=12, title="")
    options: dict[str, Any] = {"base": worlds.tiny_base(kind), "epochs": 1.0}
    options |= {} if kind == BI_ENCODER else {"negatives": 2}
    plans = [worlds.create_planned_run(kind, question_set, windows=windows, **options) for windows in (True, False)]
    runs = [worlds.train_to_end(run) for run in plans]
    assert "windows" not in runs[0].provenance()
    with_windows, without = (load_file(run.model_folder / "model.safetensors") for run in runs)
    for name, array in with_windows.items():
        assert array.tobytes() == without[name].tobytes()


def test_run_counts_long_passages_and_scores_best_windows() -> None:
    run = worlds.train_new_run(BI_ENCODER, long_set(), base=worlds.tiny_base(BI_ENCODER), epochs=1.0)
    count = run.provenance()["windows"]["passages"]
    card = (run.model_folder / "README.md").read_text("utf-8")
    assert f"- **Long passages**: {count} were trained on with one window" in card
    of = worlds.make_training_data(long_set(), run.plan().split, run.plan().options)
    encoder = BiEncoder(find_model(str(run.model_folder)), of.texts)
    dense = Dense("dense", of.question_set.passages, encoder, windows=WindowOptions())
    assert run.scores()["after"] == pytest.approx(of.evaluate(dense).validation.means())


def test_older_runs_resume_without_windows(tmp_path: Path) -> None:
    run = worlds.create_planned_run(BI_ENCODER, long_set())
    raw = json.loads((run.folder / "run.json").read_text(encoding="utf-8"))
    assert raw["options"].pop("windows") is True
    (run.folder / "run.json").write_text(json.dumps(raw), encoding="utf-8")
    assert not Run(run.folder).plan().options.windows  # type: ignore[attr-defined]
