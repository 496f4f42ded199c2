"""What sets, kinds of questions, and questions that were made of passages are called on the pages."""

from collections.abc import Mapping, Sequence

from data.catalog import CATALOG
from data.made import Maker, model_of
from data.pairs.catalog import PAIR_CATALOG
from data.pairs.store import StoredPairs
from data.records import Question
from retrieval.evaluation.slices import Property, Slice, labels_of
from views.ui.words import known, plain, word

_SAMPLE = CATALOG["sample"].title
_PAIRS = {entry.title: entry.id for entry in PAIR_CATALOG.values()}


def set_name(name: str) -> str:
    """Return what a set of this name is called: the sample in the person's language, any other as it is."""
    return word("data_page.sample") if name == _SAMPLE else name


def pairs_name(name: str) -> str:
    """Return what a set of pairs of this name is called: a known one in the person's language, any other as it is."""
    return word(f"pair_set.{_PAIRS[name]}") if name in _PAIRS else name


def pair_set_name(kept: StoredPairs) -> str:
    """Return what a stored set of pairs is called."""
    return word("sidebar.shared", name=pairs_name(kept.name)) if kept.shared else pairs_name(kept.name)


def kind_words(kind: str) -> str:
    """Return what a kind of question is called: the sample's in the person's language, any other as it is."""
    return word(f"question_kind.{kind}") if known(f"question_kind.{kind}") else kind


def answers_line(question: Question) -> str:
    """Return a question's answers, as Markdown; empty where it has none."""
    return word("why.answers", answers=plain(", ".join(question.answers))) if question.answers else ""


def slice_names(parts: Sequence[Slice], by: Property) -> list[str]:
    """Return what slices by a property are called."""
    return [kind_words(label) if by is Property.KIND else label for label in labels_of(parts, by)]


def maker_name(made: str) -> str:
    """Return what made a question, as `Question.made` says it: not Markdown, a person named the model."""
    return model_of(made) or (word(f"made.by_{made}") if made in list(Maker) else made)


def made_words(made: Mapping[str, int], questions: int) -> str:
    """Return, as Markdown, how many of the questions were made and by what."""
    by = ", ".join(plain(maker_name(one)) for one in made)
    return word("made.of_this_set", made=f"{sum(made.values()):,}", questions=f"{questions:,}", by=by)
