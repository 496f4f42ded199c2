import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from mrc_workbench.data.jobs.folder import State
from mrc_workbench.data.records import Question, QuestionSet
from mrc_workbench.data.split import SplitOptions
from mrc_workbench.models.encoders import CrossEncoderScorer
from mrc_workbench.models.loading import load_cross_encoder
from mrc_workbench.models.sources import ModelSource, find_model
from mrc_workbench.retrieval.combine import RerankedRetriever, recommended_weight
from mrc_workbench.retrieval.lexical.bm25 import BM25
from mrc_workbench.retrieval.measures import evaluate
from mrc_workbench.training.ranker_options import CROSS_ENCODER, CrossEncoderOptions
from mrc_workbench.training.recipes.examples import cross_encoder_examples
from mrc_workbench.training.recipes.rankers import INTERPOLATION_WEIGHTS
from mrc_workbench.training.recipes.training_data import TrainingData
from mrc_workbench.training.runs import Phase
from mrc_workbench.training.train import load_training_data
from tests.doubles import small_set
from tests.training.worlds import Trained, load_checkpoint, make_source, misleading_set, read_logged, train_new_run

pytestmark = pytest.mark.slow
MEASURES = ("recall@1", "recall@5", "recall@10", "mrr@10", "ndcg@10")


class Remembered:
    """A scorer that scores a pair once, for a grid of weights."""

    def __init__(self, source: ModelSource, corpus: Sequence[str]) -> None:
        self._scorer = CrossEncoderScorer(source, corpus)
        self.fingerprint = "remembered"
        self.scores: dict[tuple[str, str], float] = {}

    def load(self) -> None:
        self._scorer.load()

    def score(self, pairs: Sequence[tuple[str, str]]) -> np.ndarray:
        if new := [pair for pair in dict.fromkeys(pairs) if pair not in self.scores]:
            self.scores |= dict(zip(new, self._scorer.score(new).tolist(), strict=True))
        return np.array([self.scores[pair] for pair in pairs], dtype=np.float32)


def compute_metrics(scorer: Remembered, data: TrainingData, weight: float, depth: int = 20) -> dict[str, float]:
    passages = data.question_set.passages
    reranked = RerankedRetriever("", BM25("", passages), scorer, passages, depth=depth, weight=weight)
    rankings = reranked.search([question.text for question in data.validation.questions], 10)
    means = evaluate(rankings, data.validation, (1, 5, 10)).means()
    return {measure: means[measure] for measure in MEASURES}


def ndcg_by_hand(scorer: Remembered, data: TrainingData, weight: float) -> float:
    """Return the mean of 1 / log2(1 + rank) over questions with one relevant passage, among the first 20."""
    candidates = data.candidates(data.validation, 20)
    total = 0.0
    for question, rows, first in zip(data.validation.questions, candidates.indices, candidates.scores, strict=True):
        scored_candidates = [(int(row), float(score)) for row, score in zip(rows, first, strict=True) if row >= 0]
        second = scorer.score([(question.text, data.texts[row]) for row, _ in scored_candidates])
        mixed = []
        for (row, score), other in zip(scored_candidates, second.tolist(), strict=True):
            parts = (scaled(other, second.tolist()), scaled(score, [s for _, s in scored_candidates]))
            mixed.append((-float(np.float32(weight * parts[0] + (1 - weight) * parts[1])), row))
        order = [row for _, row in sorted(mixed)][:10]
        relevant_row = data.question_set.row_of_passage[question.relevant[0]]
        total += 1 / np.log2(order.index(relevant_row) + 2) if relevant_row in order else 0
    return total / len(data.validation.questions)


def scaled(value: float, values: list[float]) -> float:
    return (value - min(values)) / (max(values) - min(values)) if max(values) > min(values) else 0.0


def test_training_ends_done(cross_encoder: Trained) -> None:
    status = cross_encoder.status
    assert (status.state, status.phase, status.code, status.message) == (State.DONE, Phase.MEASURING_AFTER, "", "")
    assert status.step == status.total_steps == len(read_logged(cross_encoder.run, "loss"))


def test_scores_match_retrieval_evaluation(cross_encoder: Trained) -> None:
    scores = cross_encoder.run.scores()
    data = cross_encoder.data
    before = Remembered(find_model("starter"), data.texts)
    after = Remembered(make_source(cross_encoder.run), data.texts)
    assert scores["before"] == pytest.approx(compute_metrics(before, data, 1.0), abs=1e-12)
    assert scores["after"] == pytest.approx(compute_metrics(after, data, 1.0), abs=1e-12)
    assert scores["interpolated"] == pytest.approx(compute_metrics(after, data, scores["weight"]), abs=1e-12)
    bm25 = data.first_stage_scores.validation.means()
    assert scores["bm25"] == bm25 == pytest.approx(compute_metrics(after, data, 0.0), abs=1e-12)
    assert (scores["measured_on"], scores["questions"]) == ("validation", 48)


def test_selects_best_weight_of_the_grid(cross_encoder: Trained) -> None:
    assert tuple(np.round(np.arange(0, 1.01, 0.05), 2)) == INTERPOLATION_WEIGHTS
    scores = cross_encoder.run.scores()
    data = cross_encoder.data
    scorer = Remembered(make_source(cross_encoder.run), data.texts)
    reached = {weight: ndcg_by_hand(scorer, data, weight) for weight in INTERPOLATION_WEIGHTS}
    assert scores["interpolated"]["ndcg@10"] == pytest.approx(max(reached.values()), abs=1e-9)
    best = [weight for weight, value in reached.items() if value > max(reached.values()) - 1e-12]
    assert scores["weight"] == min(best, key=lambda weight: abs(weight - 0.5))
    assert scores["interpolated"]["ndcg@10"] >= scores["bm25"]["ndcg@10"] == pytest.approx(reached[0.0], abs=1e-9)
    assert reached[1.0] == pytest.approx(scores["after"]["ndcg@10"], abs=1e-9)


def test_saves_weight_with_the_model(cross_encoder: Trained) -> None:
    assert recommended_weight(make_source(cross_encoder.run)) == cross_encoder.run.scores()["weight"]
    saved_options = json.loads((cross_encoder.run.model_folder / "reranking.json").read_text())
    assert saved_options["selected_on"] == "validation questions, BM25's first 20"


def test_saves_best_model_measured_during_training(cross_encoder: Trained) -> None:
    # the trainer measures the model in memory; `after` is of the model loaded back
    measured = [entry for entry in cross_encoder.run.progress() if "eval_validation_ndcg@10" in entry]
    assert len(measured) == 2
    best = max(measured, key=lambda entry: entry["eval_validation_ndcg@10"])
    after = cross_encoder.run.scores()["after"]
    assert after == pytest.approx({measure: best[f"eval_validation_{measure}"] for measure in MEASURES}, abs=1e-9)

    pairs = [(question.text, cross_encoder.data.texts[0]) for question in cross_encoder.question_set.questions[:50]]
    base = load_cross_encoder(find_model("starter"), cross_encoder.data.texts)
    before = base.predict(pairs)
    saved_scores = load_cross_encoder(make_source(cross_encoder.run), []).predict(pairs)
    np.testing.assert_array_equal(saved_scores, load_checkpoint(cross_encoder.run, best["step"], base).predict(pairs))
    assert np.abs(saved_scores - before).max() > 1e-3


def test_validation_scores_match_another_library(cross_encoder: Trained) -> None:
    from sentence_transformers.cross_encoder.evaluation import CrossEncoderRerankingEvaluator

    data = cross_encoder.data
    candidates = data.candidates(data.validation, 20).indices
    row_of = data.question_set.row_of_passage
    samples = []
    for question, rows in zip(data.validation.questions, candidates, strict=True):
        positive = [data.texts[row_of[id_]] for id_ in question.relevant]
        documents = [data.texts[row] for row in rows if row >= 0]
        samples.append({"query": question.text, "positive": positive, "documents": documents})
    evaluator = CrossEncoderRerankingEvaluator(samples, always_rerank_positives=False, write_csv=False)
    base = load_cross_encoder(find_model("starter"), data.texts)
    measured = [entry for entry in cross_encoder.run.progress() if "eval_validation_ndcg@10" in entry]
    assert len({entry["eval_validation_ndcg@10"] for entry in measured}) == 2
    for entry in measured:
        theirs = evaluator(load_checkpoint(cross_encoder.run, entry["step"], base))
        for measure in ("mrr@10", "ndcg@10"):
            assert entry[f"eval_validation_{measure}"] == pytest.approx(theirs[measure], abs=1e-9)


def test_saved_starter_gives_same_scores(cross_encoder: Trained, tmp_path: Path) -> None:
    model = load_cross_encoder(make_source(cross_encoder.run), [])
    texts = [*cross_encoder.data.texts[:10], "", "없는낱말쀍쀍"]
    pairs = [(question, text) for question in ("한강은 어디로 흐르는가?", "") for text in texts]
    in_memory = model.predict(pairs)
    assert np.isfinite(in_memory).all()
    model.save_pretrained(str(tmp_path))
    np.testing.assert_array_equal(load_cross_encoder(find_model(str(tmp_path)), []).predict(pairs), in_memory)


def test_gain_over_bm25_is_of_interpolated_model(cross_encoder: Trained) -> None:
    scores = cross_encoder.run.scores()
    gain = scores["interpolated_gain"]
    difference = scores["interpolated"][gain["measure"]] - scores["bm25"][gain["measure"]]
    assert gain["difference"] == pytest.approx(difference, abs=1e-9)
    low, high = gain["interval"]
    assert low <= gain["difference"] <= high


def test_first_loss_matches_formula_and_loss_decreases() -> None:
    options = {"batch_size": 1000, "epochs": 40.0, "learning_rate": 0.5, "evaluation_steps": 20, "logging_steps": 1}
    run = train_new_run(CROSS_ENCODER, misleading_set(questions_a_passage=2), **options)
    plan = run.plan()
    assert isinstance(plan.options, CrossEncoderOptions)
    data = load_training_data(plan)
    pairs, _ = cross_encoder_examples(plan.options, data)
    texts = list(zip(pairs["question"], pairs["passage"], strict=True))
    logits = CrossEncoderScorer(find_model("starter"), data.texts).score(texts)
    chances = 1 / (1 + np.exp(-logits.astype(np.float64)))
    labels = np.array(pairs["label"])
    assert 0 < labels.mean() < 1
    losses = read_logged(run, "loss")
    expected = -np.mean(labels * np.log(chances) + (1 - labels) * np.log(1 - chances))
    assert losses[0] == pytest.approx(expected, abs=1e-5)
    assert losses[-1] < losses[0] / 2


def test_scores_zero_without_bm25_candidates() -> None:
    # half of the questions share no word with any passage, also on validation
    lost = [Question(f"l{i}", "nowhere", (), (f"p{i}",)) for i in range(20)]
    world = misleading_set()
    world = QuestionSet("missing", world.passages, (*world.questions, *lost))
    run = train_new_run(CROSS_ENCODER, world, SplitOptions(0.2, 0.2), epochs=1.0)
    assert run.status().message == ""
    assert run.scores()["questions"] == 8
    measured = read_logged(run, "eval_validation_ndcg@10")
    assert measured[-1] == pytest.approx(run.scores()["after"]["ndcg@10"], abs=1e-9)
    assert run.scores()["after"]["recall@10"] <= 0.5


def test_trains_on_five_passages() -> None:
    run = train_new_run(CROSS_ENCODER, small_set(), SplitOptions(0.25, 0.25, seed=1), epochs=2.0)
    assert run.scores()["interpolated"]["ndcg@10"] >= run.scores()["bm25"]["ndcg@10"]
