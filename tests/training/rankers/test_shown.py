"""Of a passage that is too long, training shows the window with the answer; of others nothing changes."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.records import Passage, Question, QuestionSet
from jobs.status import State
from models.encoders.bi_encoder import BiEncoder
from models.sources import find_model
from models.windows import Window, WindowOptions
from retrieval.dense import Dense
from tests.hub import SENTENCES, build_bi_encoder, build_cross_encoder_base
from tests.training.worlds import material_of, planned, whole
from training.options.rankers import (
    BI_ENCODER,
    CROSS_ENCODER,
    BiEncoderOptions,
    CrossEncoderObjective,
    CrossEncoderOptions,
)
from training.rankers.bi_encoder import BiEncoderRecipe
from training.rankers.cross_encoder import CrossEncoderRecipe
from training.rankers.material import Material
from training.rankers.shown import ShownPassages
from training.runs.runs import Run
from training.train import train

pytestmark = pytest.mark.slow
WORDS = sorted({word.strip(".?") for sentence in SENTENCES for word in sentence.split()})


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("bases")
    return {
        BI_ENCODER: str(build_bi_encoder(folder / "bi")),
        CROSS_ENCODER: str(build_cross_encoder_base(folder / "cross", segment_types=1)),
    }


def long_set(n: int = 12, words: int = 300, title: str = "세종") -> QuestionSet:
    """Passages of which the models here read less than half; question n's answer stands at another place in each."""
    rng, passages, questions = np.random.default_rng(0), [], []
    for row in range(n):
        text = [str(word) for word in rng.choice(WORDS, words)]
        text[(row * words) // n] = f"answer{row}x"
        passages.append(Passage(f"p{row}", " ".join(text), f"{title}{row}"))
        questions.append(Question(f"q{row}", f"{text[-1]} {text[-2]}", (f"answer{row}x",), (f"p{row}",)))
    return QuestionSet("long", tuple(passages), tuple(questions))


def spans_of(n_letters: int, size: int, stride: int, head: int) -> Iterator[Window]:
    for start in range(head, max(head + 1, n_letters - size + stride), stride):
        yield Window(head, start, min(n_letters, start + size))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=60),
    st.integers(0, 60),
    st.integers(8, 80),
    st.sampled_from(["", "제목"]),
)
def test_the_window_shown_holds_the_answer(words: list[str], place: int, size: int, title: str) -> None:
    words.insert(min(place, len(words)), "정답낱말")
    passages = (Passage("p0", " ".join(words), title), Passage("p1", "다른 글"))
    question_set = QuestionSet("one", passages, (Question("q0", "한강은", ("정답낱말",), ("p0",)),))
    material = whole(question_set)
    text = material.texts[0]
    windows = list(spans_of(len(text), size, size // 2, len(title) + 1 if title else 0))
    shown = ShownPassages(material, lambda _, row: [] if row else windows)
    (told,) = shown.texts(np.array([0]), np.array([0]))
    assert "정답낱말" in told
    assert told in {window.text(text) for window in windows}
    assert told.startswith(f"{title}\n" if title else "")
    assert shown.told == {"windows": {"passages": 1}}
    assert shown.texts(np.array([0]), np.array([1])) == ["다른 글"]


def test_a_negative_and_a_passage_without_a_known_answer_show_what_fits_by_bm25() -> None:
    text = "한강은 서울을 지나고 가을이 오면 설악산의 단풍이 물든다"
    windows = [Window(0, 0, 12), Window(0, 6, 18), Window(0, 12, len(text))]
    passages = (Passage("p0", text), Passage("p1", f"{text} 끝"))
    questions = (Question("q0", "설악산의 단풍", (), ("p0",)), Question("q1", "서울을 지나고", ("단풍",), ("p1",)))
    material = whole(QuestionSet("two", passages, questions))
    shown = ShownPassages(material, lambda _, __: windows)
    told = shown.texts(np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1]))
    assert told == [windows[2].text(text), windows[0].text(text), windows[2].text(text), windows[2].text(text)]


def test_where_all_passages_fit_the_very_same_texts_are_shown() -> None:
    material = whole(long_set(words=5))
    shown = ShownPassages(material, lambda _, __: [])
    rows = np.arange(12)
    assert shown.texts(rows, rows) == [material.texts[row] for row in rows]
    assert shown.told == {}


def material(question_set: QuestionSet, options: Any) -> Material:
    return material_of(question_set, options=options)


def test_a_bi_encoder_is_shown_answers_that_it_reads(bases: dict[str, str]) -> None:
    options = BiEncoderOptions(base=bases[BI_ENCODER])
    of = material(long_set(), options)
    task = BiEncoderRecipe(options, of).task(find_model(options.base))
    tokenizer = task.model.tokenizer
    assert len(task.columns["positive"]) == len(of.train.questions) > 5
    for question, text in zip(task.examples.question.tolist(), task.columns["positive"], strict=True):
        assert of.train.questions[question].answers[0] in text
        assert len(tokenizer(text)["input_ids"]) <= tokenizer.model_max_length
        (own,) = of.train.questions[question].relevant
        assert text.startswith(f"세종{own.removeprefix('p')}\n")
    assert task.told == {"windows": {"passages": len(of.train.questions)}}
    cut_off = BiEncoderRecipe(replace(options, windows=False), of).task(find_model(options.base))
    assert cut_off.columns["positive"] == [of.texts[row] for row in cut_off.examples.passages[:, 0]]
    assert cut_off.told == {}


@pytest.mark.parametrize("objective", [CrossEncoderObjective.BINARY_CROSS_ENTROPY, CrossEncoderObjective.LISTNET])
def test_a_cross_encoder_is_shown_answers_that_it_reads(
    bases: dict[str, str], objective: CrossEncoderObjective
) -> None:
    options = CrossEncoderOptions(base=bases[CROSS_ENCODER], objective=objective, negatives=2)
    of = material(long_set(), options)
    task = CrossEncoderRecipe(options, of).task(find_model(options.base))
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
                asked = int(task.examples.question[row])
                assert of.train.questions[asked].answers[0] in text
    assert seen == len(of.train.questions)
    assert task.told["windows"]["passages"] >= seen


@pytest.mark.parametrize("kind", [BI_ENCODER, CROSS_ENCODER])
def test_where_all_passages_fit_a_training_is_the_same_with_windows_and_without(
    bases: dict[str, str], kind: str
) -> None:
    from safetensors.numpy import load_file

    told: list[dict[str, Any]] = []
    weights: list[dict[str, np.ndarray]] = []
    more: dict[str, Any] = {} if kind == BI_ENCODER else {"negatives": 2}
    for windows in (True, False):
        run = planned(kind, long_set(words=12, title=""), base=bases[kind], windows=windows, epochs=1.0, **more)
        assert train(run).state is State.DONE
        weights.append(load_file(run.model_folder / "model.safetensors"))
        told.append(run.provenance())
    assert "windows" not in told[0]
    for name, array in weights[0].items():
        assert array.tobytes() == weights[1][name].tobytes()


def test_a_run_tells_how_many_passages_were_too_long_and_is_measured_by_their_best_windows(
    bases: dict[str, str],
) -> None:
    run = planned(BI_ENCODER, long_set(), base=bases[BI_ENCODER], epochs=1.0)
    assert train(run).state is State.DONE
    count = run.provenance()["windows"]["passages"]
    assert f"- **Long passages**: of {count} a window was shown" in (run.model_folder / "README.md").read_text("utf-8")
    of = material_of(long_set(), run.plan().split, run.plan().options)
    encoder = BiEncoder(find_model(str(run.model_folder)), of.texts)
    dense = Dense("dense", of.question_set.passages, encoder, windows=WindowOptions())
    assert run.scores()["after"] == pytest.approx(of.measure(dense).validation.means())


def test_a_run_planned_before_there_were_windows_goes_on_without(tmp_path: Path) -> None:
    run = planned(BI_ENCODER, long_set())
    raw = json.loads((run.folder / "run.json").read_text(encoding="utf-8"))
    assert raw["options"].pop("windows") is True
    (run.folder / "run.json").write_text(json.dumps(raw), encoding="utf-8")
    assert not Run(run.folder).plan().options.windows  # type: ignore[attr-defined]
