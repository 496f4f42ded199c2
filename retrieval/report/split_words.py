"""How the parts of a split came about, and what too few questions mean, in words that the report and pages share."""

from collections.abc import Callable

from mrc_workbench.data.split import FEWEST_QUESTIONS, PARTS, Part, Split, SplitMethod

Say = Callable[..., str]  # fills in the text of a key


def split_words(parts: Split, say: Say) -> str:
    """Return how a split came about, its number of questions by part, and how many test questions leak."""
    key = parts.method.value
    if parts.method is SplitMethod.GROUPED:
        key = "grouped_by_article" if parts.by_article else "grouped_by_passage"
    counts = {part.value: f"{len(parts.rows[part]):,}" for part in PARTS}
    sentences = [say(f"split.{key}", seed=parts.options.seed, **counts)]
    if parts.tests_on_validation:
        sentences.append(say("split.validation_as_test"))
    if parts.draws_validation:
        sentences.append(say("split.validation_drawn", seed=parts.options.seed))
    if parts.method is not SplitMethod.GROUPED and len(parts.rows[Part.TEST]) and len(parts.rows[Part.TRAIN]):
        leaks = {"leaks": f"{parts.leaks:,}", "test": counts["test"]}
        sentences.append(say("split.leaks", **leaks) if parts.leaks else say("split.no_leaks"))
    return " ".join(sentences)


def few_words(count: int, of: str, say: Say) -> str:
    """Return the warning that so few questions are too few; empty if they are enough.

    `of` says what they are for: "compared" or the value of a part.
    """
    if count >= FEWEST_QUESTIONS:
        return ""
    return say(f"split.few_{of}", count=count, fewest=FEWEST_QUESTIONS)


def few_taught_words(name: str, count: int, say: Say) -> str:
    """Return the warning that too few questions taught a mix, `name`; empty if they are enough."""
    if count >= FEWEST_QUESTIONS:
        return ""
    return say("split.few_taught", name=name, count=count, fewest=FEWEST_QUESTIONS)
