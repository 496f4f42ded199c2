"""What the trainings on sentence pairs share: how their data is found, what a measurement is, and how it is told."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from data.pairs.catalog import PAIR_CATALOG
from data.pairs.records import PairSet
from data.pairs.split import split_pairs
from data.pairs.store import find
from data.split import Part, SplitOptions
from training.engine.task import LOSS
from training.family import Family
from training.options.sentences import PairOptions
from training.sentences.material import ACCURACY, PEARSON, SPEARMAN, PairMaterial, judging_set
from training.sentences.measured import Likeness, summary


class SentencePairs:
    """Trainings on a set of sentence pairs; see `training.family.Family`."""

    measures: Mapping[str, str] = {SPEARMAN: "Spearman", PEARSON: "Pearson", ACCURACY: "Accuracy"}
    curves: tuple[str, ...] = (SPEARMAN, PEARSON, ACCURACY, "alignment", "uniformity")
    tag = "sentence-embeddings"
    counted: tuple[str, ...] = ("pairs",)
    examples = "pairs"
    split_by = "shared sentences, published parts as they are,"
    compared = "on the same pairs"

    def find(self, reference: str) -> PairSet:
        """Return the set of pairs that a person names. Raises `DataError`."""
        return find(reference)

    def check(self, data: PairSet, options: PairOptions) -> None:
        """Raise `OptionError` where the objective does not learn from such pairs, or others cannot judge them."""
        options.require_fitting(data.name, data.kind)
        judging_set(data, options)

    def texts(self, data: PairSet, options: PairOptions) -> Sequence[str]:
        """Every different sentence."""
        del options
        return data.sentences

    def about(self, data: PairSet, shares: SplitOptions, options: PairOptions) -> dict[str, Any]:
        """How many pairs of what kind there are, in each part, and which set judges."""
        rows = split_pairs(data, shares)
        parts = {f"{part.value}_pairs": len(rows[part]) for part in (Part.TRAIN, Part.VALIDATION, Part.TEST)}
        judging = judging_set(data, options)
        judged = {} if judging is data else {"judged_on": judging.name, "judged_on_fingerprint": judging.fingerprint}
        licence = next((entry.licence for entry in PAIR_CATALOG.values() if entry.title == data.name), "")
        told = {"licence": licence} if licence else {}
        return {"pairs": len(data), "kind": data.kind.value, **told, **parts, **judged}

    def material(
        self,
        data: PairSet,
        shares: SplitOptions,
        options: PairOptions,
        marked: tuple[tuple[str, str], ...] = (),
        on_progress: Callable[[float], None] | None = None,
    ) -> PairMaterial:
        """Split the set as planned. Raises `OptionError` and `TrainingError`."""
        del marked, on_progress
        self.check(data, options)
        return PairMaterial.of(data, shares, options)

    def baselines(self, material: PairMaterial) -> dict[str, Likeness]:
        """None: words that two sentences share are no model."""
        del material
        return {}

    def measurement(self, kept: Mapping[str, Any], material: PairMaterial) -> Likeness | None:
        """Read a measurement again; None where other pairs judge by now."""
        if kept.get("judge") != material.judge.fingerprint:
            return None
        return Likeness.of(kept)

    def summary(self, measured: Mapping[str, Likeness], material: PairMaterial, options: PairOptions) -> dict[str, Any]:
        """What `scores.json` holds."""
        del options
        return summary(measured, material)

    def rows(self, options: PairOptions, scores: Mapping[str, Any]) -> dict[str, str]:
        """The base and the model."""
        del options, scores
        return {"before": "The base", "after": "**This model**"}

    def told(self, scores: Mapping[str, Any], made: Mapping[str, Any]) -> Iterator[str]:
        """Paragraphs of a card that say what the figures are of."""
        del made
        chosen = "their loss chose" if scores.get("judged_by") == LOSS else "they also chose"
        if scores.get("intervals"):
            yield (
                f"Times 100, on {scores.get('pairs', 0):,} validation pairs that it was not trained on; {chosen} the "
                "checkpoint. In brackets: 95% bootstrap intervals over groups of pairs that share sentences."
            )
        else:
            yield "Nobody scored what it was measured on: the loss of validation examples chose the checkpoint."
        before, after = (scores.get(name, {}) for name in ("before", "after"))
        known = [name for name in ("alignment", "uniformity") if name in before.keys() & after.keys()]
        if known:
            went = ", ".join(f"{name} went from {before[name]:.4f} to {after[name]:.4f}" for name in known)
            yield f"In its space, {went}; lower is better for both (Wang & Isola 2020)."
        yield "The licence of the data, and that of the base, may say what can be done with this model: look at both."


PAIRS: Family = SentencePairs()
