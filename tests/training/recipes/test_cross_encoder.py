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
from mrc_workbench.retrieval.combine import Reranked, recommended_weight
from mrc_workbench.retrieval.lexical.bm25 import BM25
from mrc_workbench.retrieval.measures import evaluate
from mrc_workbench.training.ranker_options import CROSS_ENCODER, CrossEncoderOptions
from mrc_workbench.training.recipes.examples import cross_encoder_examples
from mrc_workbench.training.recipes.material import Material
from mrc_workbench.training.recipes.rankers import WEIGHTS
from mrc_workbench.training.runs import Phase
from mrc_workbench.training.train import load_material, train
from tests.doubles import small_set
from tests.training.worlds import Trained, at_checkpoint, logged, misleading_set, planned, source_of

pytestmark = pytest.mark.slow
MEASURES = ("recall@1", "recall@5", "recall@10", "mrr@10", "ndcg@10")


class Remembered:
    """A scorer that scores a pair once: the weights of a grid look at the same pairs."""

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


def figures(scorer: Remembered, material: Material, weight: float, depth: int = 20) -> dict[str, float]:
    passages = material.question_set.passages
    reranked = Reranked("", BM25("", passages), scorer, passages, depth=depth, weight=weight)
    rankings = reranked.search([question.text for question in material.validation.questions], 10)
    means = evaluate(rankings, material.validation, (1, 5, 10)).means()
    return {measure: means[measure] for measure in MEASURES}


def ndcg_by_hand(scorer: Remembered, material: Material, weight: float) -> float:
    """Mean over the questions, each with one relevant passage, of 1 / log2(1 + its rank among the first 20)."""
    found = material.candidates(material.validation, 20)
    total = 0.0
    for question, rows, first in zip(material.validation.questions, found.indices, found.scores, strict=True):
        kept = [(int(row), float(score)) for row, score in zip(rows, first, strict=True) if row >= 0]
        second = scorer.score([(question.text, material.texts[row]) for row, _ in kept])
        mixed = []
        for (row, score), other in zip(kept, second.tolist(), strict=True):
            parts = (scaled(other, second.tolist()), scaled(score, [s for _, s in kept]))
            mixed.append((-float(np.float32(weight * parts[0] + (1 - weight) * parts[1])), row))
        order = [row for _, row in sorted(mixed)][:10]
        wanted = material.question_set.row_of_passage[question.relevant[0]]
        total += 1 / np.log2(order.index(wanted) + 2) if wanted in order else 0
    return total / len(material.validation.questions)


def scaled(value: float, values: list[float]) -> float:
    return (value - min(values)) / (max(values) - min(values)) if max(values) > min(values) else 0.0


def test_it_ends_done(cross_encoder: Trained) -> None:
    status = cross_encoder.status
    assert (status.state, status.phase, status.code, status.message) == (State.DONE, Phase.MEASURING_AFTER, "", "")
    assert status.step == status.total_steps == len(logged(cross_encoder.run, "loss"))


def test_scores_are_those_of_the_retrieval_room(cross_encoder: Trained) -> None:
    scores, material = cross_encoder.run.scores(), cross_encoder.material
    before = Remembered(find_model("starter"), material.texts)
    after = Remembered(source_of(cross_encoder.run), material.texts)
    assert scores["before"] == pytest.approx(figures(before, material, 1.0), abs=1e-12)
    assert scores["after"] == pytest.approx(figures(after, material, 1.0), abs=1e-12)
    assert scores["interpolated"] == pytest.approx(figures(after, material, scores["weight"]), abs=1e-12)
    assert (
        scores["bm25"]
        == material.first_stage_scores.validation.means()
        == pytest.approx(figures(after, material, 0.0), abs=1e-12)
    )
    assert (scores["measured_on"], scores["questions"]) == ("validation", 48)


def test_the_weight_is_the_best_of_the_grid(cross_encoder: Trained) -> None:
    assert tuple(np.round(np.arange(0, 1.01, 0.05), 2)) == WEIGHTS
    scores, material = cross_encoder.run.scores(), cross_encoder.material
    scorer = Remembered(source_of(cross_encoder.run), material.texts)
    reached = {weight: ndcg_by_hand(scorer, material, weight) for weight in WEIGHTS}
    assert scores["interpolated"]["ndcg@10"] == pytest.approx(max(reached.values()), abs=1e-9)
    best = [weight for weight, value in reached.items() if value > max(reached.values()) - 1e-12]
    assert scores["weight"] == min(best, key=lambda weight: abs(weight - 0.5))
    assert scores["interpolated"]["ndcg@10"] >= scores["bm25"]["ndcg@10"] == pytest.approx(reached[0.0], abs=1e-9)
    assert reached[1.0] == pytest.approx(scores["after"]["ndcg@10"], abs=1e-9)


def test_the_weight_is_kept_with_the_model(cross_encoder: Trained) -> None:
    assert recommended_weight(source_of(cross_encoder.run)) == cross_encoder.run.scores()["weight"]
    kept = json.loads((cross_encoder.run.model_folder / "reranking.json").read_text())
    assert kept["chosen_on"] == "validation questions, BM25's first 20"


def test_the_model_kept_is_the_best_of_those_measured_in_memory(cross_encoder: Trained) -> None:
    # the trainer measures the model in memory; `after` is of the model loaded back
    measured = [entry for entry in cross_encoder.run.progress() if "eval_validation_ndcg@10" in entry]
    assert len(measured) == 2
    best = max(measured, key=lambda entry: entry["eval_validation_ndcg@10"])
    after = cross_encoder.run.scores()["after"]
    assert after == pytest.approx({measure: best[f"eval_validation_{measure}"] for measure in MEASURES}, abs=1e-9)

    pairs = [(question.text, cross_encoder.material.texts[0]) for question in cross_encoder.question_set.questions[:50]]
    base = load_cross_encoder(find_model("starter"), cross_encoder.material.texts)
    before = base.predict(pairs)
    kept = load_cross_encoder(source_of(cross_encoder.run), []).predict(pairs)
    np.testing.assert_array_equal(kept, at_checkpoint(cross_encoder.run, best["step"], base).predict(pairs))
    assert np.abs(kept - before).max() > 1e-3


def test_what_is_measured_meanwhile_is_what_another_library_measures(cross_encoder: Trained) -> None:
    from sentence_transformers.cross_encoder.evaluation import CrossEncoderRerankingEvaluator

    material = cross_encoder.material
    found = material.candidates(material.validation, 20).indices
    row_of = material.question_set.row_of_passage
    samples = [
        {
            "query": question.text,
            "positive": [material.texts[row_of[id_]] for id_ in question.relevant],
            "documents": [material.texts[row] for row in rows if row >= 0],
        }
        for question, rows in zip(material.validation.questions, found, strict=True)
    ]
    evaluator = CrossEncoderRerankingEvaluator(samples, always_rerank_positives=False, write_csv=False)
    base = load_cross_encoder(find_model("starter"), material.texts)
    measured = [entry for entry in cross_encoder.run.progress() if "eval_validation_ndcg@10" in entry]
    assert len({entry["eval_validation_ndcg@10"] for entry in measured}) == 2
    for entry in measured:
        theirs = evaluator(at_checkpoint(cross_encoder.run, entry["step"], base))
        for measure in ("mrr@10", "ndcg@10"):
            assert entry[f"eval_validation_{measure}"] == pytest.approx(theirs[measure], abs=1e-9)


def test_a_saved_starter_gives_the_scores_it_gave_in_memory(cross_encoder: Trained, tmp_path: Path) -> None:
    model = load_cross_encoder(source_of(cross_encoder.run), [])
    texts = [*cross_encoder.material.texts[:10], "", "없는낱말쀍쀍"]
    pairs = [(question, text) for question in ("한강은 어디로 흐르는가?", "") for text in texts]
    in_memory = model.predict(pairs)
    assert np.isfinite(in_memory).all()
    model.save_pretrained(str(tmp_path))
    np.testing.assert_array_equal(load_cross_encoder(find_model(str(tmp_path)), []).predict(pairs), in_memory)


def test_the_gain_over_bm25_is_that_of_the_mixed_model(cross_encoder: Trained) -> None:
    scores = cross_encoder.run.scores()
    gain = scores["mixed_gain"]
    difference = scores["interpolated"][gain["measure"]] - scores["bm25"][gain["measure"]]
    assert gain["difference"] == pytest.approx(difference, abs=1e-9)
    low, high = gain["interval"]
    assert low <= gain["difference"] <= high


def test_the_model_folder_holds_no_pickles(cross_encoder: Trained) -> None:
    names = {path.name for path in cross_encoder.run.model_folder.rglob("*") if path.is_file()}
    assert {"model.safetensors", "reranking.json"} <= names
    assert not [name for name in names if name.endswith((".bin", ".pt", ".pth", ".pkl", ".ckpt"))]


def test_the_first_loss_is_the_written_formula_and_it_goes_down() -> None:
    run = planned(CROSS_ENCODER, misleading_set(questions_a_passage=2), batch_size=1000, epochs=40.0,
                  learning_rate=0.5, evaluation_steps=20, logging_steps=1)  # fmt: skip
    assert train(run).state is State.DONE
    plan = run.plan()
    assert isinstance(plan.options, CrossEncoderOptions)
    material = load_material(plan)
    pairs, _ = cross_encoder_examples(plan.options, material)
    logits = CrossEncoderScorer(find_model("starter"), material.texts).score(
        list(zip(pairs["question"], pairs["passage"], strict=True))
    )
    chances = 1 / (1 + np.exp(-logits.astype(np.float64)))
    labels = np.array(pairs["label"])
    assert 0 < labels.mean() < 1
    losses = logged(run, "loss")
    expected = -np.mean(labels * np.log(chances) + (1 - labels) * np.log(1 - chances))
    assert losses[0] == pytest.approx(expected, abs=1e-5)
    assert losses[-1] < losses[0] / 2


def test_a_question_that_bm25_cannot_answer_scores_0() -> None:
    # half of the questions share no word with any passage, also on validation
    lost = [Question(f"l{i}", "nowhere", (), (f"p{i}",)) for i in range(20)]
    world = misleading_set()
    world = QuestionSet("lost", world.passages, (*world.questions, *lost))
    run = planned(CROSS_ENCODER, world, SplitOptions(0.2, 0.2), epochs=1.0)
    status = train(run)
    assert (status.state, status.message) == (State.DONE, "")
    assert run.scores()["questions"] == 8
    measured = logged(run, "eval_validation_ndcg@10")
    assert measured[-1] == pytest.approx(run.scores()["after"]["ndcg@10"], abs=1e-9)
    assert run.scores()["after"]["recall@10"] <= 0.5


def test_five_passages_are_enough() -> None:
    run = planned(CROSS_ENCODER, small_set(), SplitOptions(0.25, 0.25, seed=1), epochs=2.0)
    assert train(run).state is State.DONE
    assert run.scores()["interpolated"]["ndcg@10"] >= run.scores()["bm25"]["ndcg@10"]


def test_a_seed_repeats_a_training() -> None:
    runs = [planned(CROSS_ENCODER, misleading_set(), epochs=1.0, batch_size=4, seed=seed) for seed in (5, 5)]
    for run in runs:
        assert train(run).state is State.DONE
    pairs = [(q.text, p.text) for q in misleading_set().questions for p in misleading_set().passages]
    first, again = (load_cross_encoder(source_of(run), []).predict(pairs) for run in runs)
    np.testing.assert_array_equal(first, again)
