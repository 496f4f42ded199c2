"""Complete trainings of readers with a tiny transformer."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

from mrc_workbench.data.records import Passage, Question, QuestionSet
from mrc_workbench.data.split import Part, SplitOptions, split
from mrc_workbench.data.store import save_question_set
from mrc_workbench.labs.reading.extractive import best_threshold, read_contexts
from mrc_workbench.labs.reading.scores import ScoringRules, score_answer
from mrc_workbench.models.inference import Precision
from mrc_workbench.models.reader import SpanOptions, SpanReader, load_reader, options_of
from mrc_workbench.models.sources import find_model
from mrc_workbench.training.estimate import estimate
from mrc_workbench.training.options import EmbeddingTable, TrainingError
from mrc_workbench.training.ranker_options import BI_ENCODER
from mrc_workbench.training.recipes.readers import ReaderRecipe, ReaderTrainingData, is_unanswerable
from mrc_workbench.training.runs import Run
from mrc_workbench.training.text_options import READER, ReaderBestBy, ReaderOptions
from mrc_workbench.training.train import load_training_data
from mrc_workbench.workbench.cli import main
from tests.training.test_resume import assert_alike, lose_last_checkpoint, newest_step, stopped_at
from tests.training.worlds import (
    CUE,
    WORDS,
    created_reader,
    cue_set,
    get_base,
    in_workspace,
    make_source,
    read_logged,
    train_new_run,
    train_to_end,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_workspace_of_module")]


@pytest.fixture(scope="module")
def learned(module_workspace: Path) -> Run:
    settings: dict[str, Any] = {"epochs": 6.0, "learning_rate": 2e-3, "batch_size": 8, "logging_steps": 10}
    return in_workspace(module_workspace, lambda: train_to_end(created_reader(cue_set(600, words=4), **settings)))


def pairs_of(run: Run, part: Part) -> tuple[QuestionSet, list[tuple[str, str]]]:
    question_set = ReaderRecipe.family.find(run.plan().data)
    question_set_of_part = split(question_set, run.plan().split).questions(question_set, part)
    questions = question_set_of_part.questions
    rows = [question_set.row_of_passage[question.relevant[0]] for question in questions]
    texts = [question_set.passages[row].text for row in rows]
    return question_set_of_part, [(question.text, text) for question, text in zip(questions, texts, strict=True)]


def test_learns_cue_and_generalizes(learned: Run) -> None:
    scores = learned.scores()
    assert scores["before"]["em"] < 0.3
    assert scores["after"]["em"] > 0.9
    assert scores["gain"]["interval"][0] > 0.5
    assert (scores["questions"], scores["measured_on"], scores["normalization"]) == (120, "validation", "korquad")
    test_set, pairs = pairs_of(learned, Part.TEST)
    read = SpanReader(make_source(learned)).read(pairs)
    answers = [text[start:end] for (_, text), start, end in zip(pairs, read.starts[:, 0], read.ends[:, 0], strict=True)]
    pairs = zip(answers, test_set.questions, strict=True)
    right = [score_answer(answer, question.answers, ScoringRules.KORQUAD) for answer, question in pairs]
    assert np.mean(right, axis=0).min() > 0.9
    measured = read_logged(learned, "eval_validation_f1")
    assert scores["after"]["f1"] == pytest.approx(max(measured), abs=1e-6)
    counts = {"answers": 360, "windows": 360, "corrected": 0, "missing": 0, "without_answer": 0}
    assert learned.provenance()["answers"] == counts


def test_bfloat16_finds_same_spans(learned: Run) -> None:
    _, pairs = pairs_of(learned, Part.ALL)
    precisions = (Precision.FLOAT32, Precision.BFLOAT16)
    exact, quick = (SpanReader(make_source(learned), precision=precision).read(pairs) for precision in precisions)
    same = (exact.starts[:, 0] == quick.starts[:, 0]) & (exact.ends[:, 0] == quick.ends[:, 0])
    assert same.mean() >= 0.95


def test_transformers_loads_model_without_pickles(learned: Run) -> None:
    suffixes = {path.suffix for path in learned.model_folder.rglob("*") if path.is_file() and path.name != "vocab.txt"}
    assert suffixes == {".safetensors", ".json", ".md"}
    network = AutoModelForQuestionAnswering.from_pretrained(learned.model_folder)
    tokenizer = AutoTokenizer.from_pretrained(learned.model_folder)
    own = load_reader(make_source(learned))
    given = tokenizer([CUE, CUE], [" ".join(WORDS[:4]), " ".join([*WORDS[:2], CUE])], padding=True, return_tensors="pt")
    with torch.no_grad():
        theirs = network(**given)
        ours = own[0](dict(given))
    assert torch.equal(theirs.start_logits, ours["starts"])
    assert torch.equal(theirs.end_logits, ours["ends"])
    assert options_of(make_source(learned)) == SpanOptions(32, 8, 4)


def test_card_describes_reader(learned: Run) -> None:
    card = (learned.model_folder / "README.md").read_text(encoding="utf-8")
    assert "library_name: transformers" in card
    assert "pipeline_tag: question-answering" in card
    assert ReaderRecipe.summary in card
    assert "| |Exact match|F1|" in card
    assert "each with its passage, by the rules of korquad" in card
    assert "Of 360 answers in training passages, 0 were at another position" in card
    assert "part of the MRC Retrieval Workbench" in card
    lines = card.split("```python\n")[1].split("```")[0].replace("path/of/this/folder", str(learned.model_folder))
    exec(lines, {})  # noqa: S102 - what the card tells people to run


SHORT: dict[str, Any] = {"batch_size": 4, "epochs": 2.0, "evaluation_steps": 3, "save_steps": 3}


# they add a constant to all logits, see `weights`
WITHOUT_GRADIENT = ("layer.1.output.LayerNorm.bias", "qa_outputs.bias")


def test_resumes_identically_after_stop_and_kill_while_saving() -> None:
    options = SHORT | {"negative_question_fraction": 0.5}
    whole, run = (created_reader(cue_set(30, 10), **options) for _ in range(2))
    train_to_end(whole)
    for step in (2, 4):
        stopped_at(run, step)
    lose_last_checkpoint(run)
    assert newest_step(run) == 3
    train_to_end(run)
    assert_alike(run, whole, "eval_loss", "eval_validation_f1", ignored=WITHOUT_GRADIENT)


def changed_weights(run: Run) -> set[str]:
    base = load_reader(find_model(get_base(READER)), new_head=True)[0].model.state_dict()
    saved = load_file(run.model_folder / "model.safetensors")
    assert saved.keys() == base.keys()
    return {name for name, array in saved.items() if not np.array_equal(array, base[name].numpy())}


def test_trains_and_merges_adapters() -> None:
    run = train_to_end(created_reader(cue_set(30), lora_rank=2, learning_rate=1e-2))
    changed = changed_weights(run)
    assert "qa_outputs.weight" in changed, "the head is new, so it is trained in full"
    assert any("attention.self.query.weight" in name for name in changed)
    assert not any("embeddings" in name or "LayerNorm" in name for name in changed)


@pytest.mark.parametrize("options", [{}, {"lora_rank": 2, "evaluation_steps": 3}, {"gradient_checkpointing": True}])
def test_estimates_time_and_memory(options: dict[str, Any]) -> None:
    run = created_reader(cue_set(30, 6), negative_question_fraction=1.0, epochs=2.0, batch_size=8, **options)
    result = estimate(run.plan())
    assert result.fits
    assert (result.seconds_per_step, result.seconds_evaluating, result.seconds_loading) > (0, 0, 0)
    assert result.seconds > result.steps * result.seconds_per_step
    assert train_to_end(run).status().total_steps == result.steps


def test_frozen_embeddings_stay_unchanged() -> None:
    run = train_to_end(created_reader(cue_set(30), embedding_table=EmbeddingTable.FROZEN))
    assert "bert.embeddings.word_embeddings.weight" not in changed_weights(run)


# unanswerable questions


def test_scores_no_answer_at_best_threshold() -> None:
    run = train_to_end(created_reader(cue_set(60, 60), epochs=3.0))
    data = load_training_data(run.plan())
    scores = run.scores()
    assert scores["unanswerable"] == sum(map(is_unanswerable, data.validation.questions)) == 12
    assert run.provenance()["data"]["unanswerable_questions"] == 60
    assert run.provenance()["answers"]["without_answer"] == 36
    read = read_contexts(SpanReader(make_source(run)), data.validation)
    threshold = best_threshold(read, data.validation, ScoringRules.KORQUAD)
    assert threshold is not None

    def reached(at: float) -> list[float]:
        answered = zip(read.predictions(at), data.validation.questions, strict=True)
        scores = [score_answer(answer, of.answers, ScoringRules.KORQUAD) for answer, of in answered]
        both: list[float] = np.mean(scores, axis=0).tolist()
        return both

    assert [scores["after"][name] for name in ("em", "f1")] == pytest.approx(reached(threshold), abs=1e-6)
    assert reached(threshold)[1] == pytest.approx(max(reached(at) for at in np.linspace(-30, 30, 121))[1], abs=0.05)
    assert scores["after"]["em"] >= 0.5, "to be silent always is right for half of them"


def windows_of(question_set: QuestionSet, **options: Any) -> dict[str, int]:
    settings = {"max_length": 64, "overlap": 8, "negative_question_fraction": 0.0, **options}
    reader_options = ReaderOptions(base=get_base(READER), **settings)
    data = ReaderTrainingData.from_question_set(question_set, SplitOptions(0.2, 0.2), reader_options)
    recipe = ReaderRecipe(reader_options, data)
    answer_counts: dict[str, int] = recipe.build_task(find_model(get_base(READER))).metadata["answers"]
    return answer_counts


def test_excludes_rejected_passages_of_held_out_articles() -> None:
    question_set = cue_set(20)
    held_out = split(question_set, SplitOptions(0.2, 0.2)).questions(question_set, Part.TEST).questions[0]
    questions = tuple(replace(question, rejected=(held_out.relevant[0],)) for question in question_set.questions)
    assert windows_of(replace(question_set, questions=questions))["without_answer"] == 0
    learned = split(question_set, SplitOptions(0.2, 0.2)).questions(question_set, Part.TRAIN).questions[0]
    questions = tuple(replace(question, rejected=(learned.relevant[0],)) for question in question_set.questions)
    assert windows_of(replace(question_set, questions=questions))["without_answer"] == 12


@pytest.mark.parametrize("title", [False, True])
def test_answer_position_refers_to_first_passage_without_title(title: bool) -> None:
    """A second passage holds the same words elsewhere, which is not a correction."""
    passages = []
    questions = []
    for number in range(10):
        first = f"{WORDS[1]} {WORDS[2]} {WORDS[number % 3 + 3]}"
        second = f"{WORDS[number % 4 + 6]} {WORDS[2]}"
        passages += [Passage(f"a{number}", f"{first} {number}", "제목"[number % 2 :] + f"{number}")]
        passages += [Passage(f"b{number}", f"{second} {number}", f"다른 {number}")]
        start = len(WORDS[1]) + 1
        relevant = (f"a{number}", f"b{number}")
        questions.append(Question(f"q{number}", f"{CUE} {number}", (WORDS[2],), relevant, starts=(start,)))
    counts = windows_of(QuestionSet("two", tuple(passages), tuple(questions)), title=title)
    assert counts == {"answers": 12, "corrected": 0, "missing": 0, "without_answer": 0, "windows": 12}


def test_rejects_set_whose_answers_are_missing_in_passages() -> None:
    question_set = cue_set(20)
    questions = tuple(replace(question, answers=("없다",), starts=()) for question in question_set.questions)
    with pytest.raises(TrainingError) as caught:
        windows_of(replace(question_set, questions=questions))
    assert caught.value.code == "nothing_to_read"


# its position among the others


def test_continues_from_bi_encoder_and_reader() -> None:
    question_set = cue_set(30)
    options = {"base": get_base(READER), "epochs": 1.0}
    encoder = train_new_run(BI_ENCODER, question_set, SplitOptions(0.2, 0.2), **options)
    first = train_to_end(created_reader(question_set, base=encoder.id))
    second = train_to_end(created_reader(question_set, base=first.id))
    assert second.scores()["before"] == pytest.approx(first.scores()["after"], abs=1e-6)


def test_command_trains_reader(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = save_question_set(cue_set(30))
    words = [READER, "--data", data.key, "--base", get_base(READER), "--out", str(tmp_path / "out"), "--epochs", "1"]
    words += ["--max-length", "32", "--overlap", "8", "--batch-size", "8"]
    words += ["--normalization", "squad", "--best-by", "em"]
    assert main(["train", *words]) == 0
    output = capsys.readouterr().out
    assert str(tmp_path / "out" / "model") in output
    options = Run(tmp_path / "out").plan().options
    assert isinstance(options, ReaderOptions)
    assert (options.normalization, options.best_by) == (ScoringRules.SQUAD, ReaderBestBy.EXACT)
    assert Run(tmp_path / "out").scores()["gain"]["measure"] == "em"
    assert main(["train", READER, "--data", data.key, "--base", "starter"]) == 2
    assert "base must be a transformer: a starter ignores word order" in capsys.readouterr().err
    assert main(["train", READER, "--data", data.key, "--base", get_base(READER), "--overlap", "300"]) == 2
    assert "overlap must be half of max_length at most" in capsys.readouterr().err
