"""What a language model reaches: hidden tokens guessed on rows held out and, beside them, on a few it learns from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from language.masking.perplexity import GUESSED, Guesses


@dataclass(frozen=True)
class Guessed:
    """Of both; `judge` is the key of the rows held out."""

    validation: Guesses
    training: Guesses
    judge: str = ""

    def means(self) -> dict[str, dict[str, float]]:
        """Of both, the figures by name."""
        return {"validation": self.validation.means(), "training": self.training.means()}

    def kept(self) -> dict[str, Any]:
        """As JSON."""
        return {"judge": self.judge, "validation": self.validation.kept(), "training": self.training.kept()}

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Self | None:
        """Read what was kept; None where nothing was."""
        if not {"validation", "training", "judge"} <= kept.keys():
            return None
        return cls(Guesses.of(kept["validation"]), Guesses.of(kept["training"]), kept["judge"])


def summary(measured: Mapping[str, Guessed]) -> dict[str, Any]:
    """Figures on held-out rows, their 95% intervals and the gain; figures and gain on the training sample, too."""
    judging = {name: one.validation for name, one in measured.items()}
    learned = {name: one.training for name, one in measured.items()}
    return {
        **{name: one.means() for name, one in judging.items()},
        "intervals": {name: {of: list(ends) for of, ends in one.intervals().items()} for name, one in judging.items()},
        "gain": _gain(judging),
        "training_sample": {
            **{name: one.means() for name, one in learned.items()},
            "gain": _gain(learned),
            "questions": len(learned["after"].losses),
        },
        "measured_on": "validation",
        "rows": len(judging["after"].losses),
        "hidden": int(judging["after"].hidden.sum()),
    }


def _gain(by_name: Mapping[str, Guesses]) -> dict[str, Any]:
    difference, interval = by_name["after"].gain(by_name["before"])
    return {"measure": GUESSED, "difference": difference, "interval": list(interval)}
