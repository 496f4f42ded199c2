"""What is said of questions that were made of passages."""

from collections.abc import Mapping

from data.made import Maker, model_of
from views.words import plain, word


def maker_name(made: str) -> str:
    """Return what made a question, as `Question.made` says it: not Markdown, a person named the model."""
    return model_of(made) or (word(f"made.by_{made}") if made in list(Maker) else made)


def made_words(made: Mapping[str, int], questions: int) -> str:
    """Return, as Markdown, how many of the questions were made and by what."""
    by = ", ".join(plain(maker_name(one)) for one in made)
    return word("made.of_this_set", made=f"{sum(made.values()):,}", questions=f"{questions:,}", by=by)
