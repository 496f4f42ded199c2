"""What the trainings of models that rank passages share: question sets, and what a search finds in them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from data.records import QuestionSet
from data.split import Part, SplitOptions, split
from data.store import find
from retrieval.evaluation.measures import Measure
from training.family import Family
from training.options.questions import BestBy, QuestionOptions
from training.rankers.material import Marks, Material
from training.rankers.reached import Reached, summary

_MEASURES = ("recall@1", "recall@5", "recall@10", "mrr@10", "ndcg@10")


class Rankers:
    """Trainings on a question set; see `training.recipe.Family`."""

    measures: Mapping[str, str] = {of: Measure.parse(of).long for of in _MEASURES}
    curves: tuple[str, ...] = tuple(measure.value for measure in BestBy)
    tag = "retrieval"
    counted: tuple[str, ...] = ("questions", "passages")
    examples = "questions"
    split_by = "article"
    compared = "question by question"

    def find(self, reference: str) -> QuestionSet:
        """Return the question set that a person names. Raises `DataError`."""
        return find(reference)

    def check(self, data: QuestionSet, options: QuestionOptions) -> None:
        """Any question set will do."""

    def texts(self, data: QuestionSet, options: QuestionOptions) -> Sequence[str]:
        """The passages as they are indexed."""
        return data.passages.indexed_texts(title=options.title)

    def about(self, data: QuestionSet, shares: SplitOptions, options: QuestionOptions) -> dict[str, Any]:
        """How many questions there are, in each part, and how many of them were made of passages."""
        del options
        rows = split(data, shares).rows
        parts = {f"{part.value}_questions": len(rows[part]) for part in (Part.TRAIN, Part.VALIDATION, Part.TEST)}
        made = {"made_questions": data.made} if data.made else {}
        return {"questions": len(data.questions), "passages": len(data.passages), **parts, **made}

    def material(
        self,
        data: QuestionSet,
        shares: SplitOptions,
        options: QuestionOptions,
        marked: Marks = (),
        on_progress: Callable[[float], None] | None = None,
    ) -> Material:
        """Split the set as planned. Raises `TrainingError` where there is nothing to learn from or to measure on."""
        del on_progress
        return Material.of(data, shares, options, marked)

    def baselines(self, material: Material) -> dict[str, Reached]:
        """What BM25 reaches."""
        return {"bm25": material.first_stage_scores}

    def measurement(self, kept: Mapping[str, Any], material: Material) -> Reached | None:
        """Read a measurement again; None where it says too little."""
        del material
        return Reached.of(kept)

    def summary(self, measured: Mapping[str, Reached], material: Material, options: QuestionOptions) -> dict[str, Any]:
        """What `scores.json` holds."""
        return summary(measured, options.best_by, material.validation, material.sample, material.test)

    def rows(self, options: QuestionOptions, scores: Mapping[str, Any]) -> dict[str, str]:
        """What was measured, as a card's table calls it."""
        alone = f", alone over BM25's first {options.reranked}" if options.reranked else ""
        return {
            "bm25": "BM25",
            "before": f"The base{alone}",
            "after": f"**This model**{alone}",
            "interpolated": f"This model, mixed with BM25 (weight {scores.get('weight', '')})",
        }

    def told(self, scores: Mapping[str, Any], made: Mapping[str, Any]) -> Iterator[str]:
        """Paragraphs of a card that say what the figures are of."""
        data = made.get("data", {})
        searched = f", in all {data['passages']:,} passages" if data.get("passages") else ""
        chosen = "the checkpoint and the weight" if "interpolated" in scores else "the checkpoint"
        yield (
            f"In percent, on {scores.get('questions', 0):,} validation questions that it was not trained on{searched}; "
            f"they also chose {chosen}. In brackets: 95% bootstrap intervals."
        )
        if data.get("made_questions"):
            yield (
                "Questions of this set were made of its passages, which were read without the sentence or the title "
                "that asks. The figures are no measure of what people find."
            )
        if active := scores.get("active_terms"):
            counts = f"{active['question']:,.1f} terms in a question and {active['passage']:,.1f} in a passage"
            yield f"It gives a weight to {counts}, on average."


RANKERS: Family = Rankers()
