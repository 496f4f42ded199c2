"""Questions made of passages: how they are called, and the passages without what asks for them."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum

from data.records import Passage, Passages, QuestionSet


class Maker(StrEnum):
    """What makes questions of passages."""

    TITLE = "title"  # the title of an article asks for its passages
    SENTENCE = "sentence"  # a sentence asks for the rest of its passage: inverse cloze task, Lee et al. 2019
    MODEL = "model"  # a language model writes what the passage answers: doc2query, Nogueira & Lin 2019


_OF_A_MODEL = f"{Maker.MODEL}: "


def made_by(maker: Maker, model: str = "") -> str:
    """Return what `Question.made` says: the maker, with its name where it is a language model."""
    return f"{_OF_A_MODEL}{model}" if maker is Maker.MODEL else maker.value


def model_of(made: str) -> str:
    """Return the name of the language model that `Question.made` names, empty where it names none."""
    return made.removeprefix(_OF_A_MODEL) if made.startswith(_OF_A_MODEL) else ""


def as_trained(question_set: QuestionSet) -> QuestionSet:
    """Return the set with its passages as they are trained on: without what hidden questions ask with.

    A sentence that asks is taken out of the passages it asks for. Where a title asks, no passage keeps one: those
    without would be known by that. What is measured during the training is measured so, too. Ids, rows and questions
    stay, and the corpus that is searched later is the whole one.
    """
    hidden = [question for question in question_set.questions if question.hidden]
    if not hidden:
        return question_set
    sentences: defaultdict[int, list[str]] = defaultdict(list)
    for question in hidden:
        if question.made != Maker.TITLE:
            for id_ in question.relevant:
                sentences[question_set.row_of_passage[id_]].append(question.text)
    keeps_titles = all(question.made != Maker.TITLE for question in hidden)
    passages = Passages.of(
        Passage(one.id, without(one.text, sentences.get(row, ())), one.title if keeps_titles else "")
        for row, one in enumerate(question_set.passages)
    )
    # two passages may have differed by the sentences alone: as known ones they are not looked through for that
    return replace(question_set, passages=Passages(passages.table, known=passages.fingerprint))


def without(text: str, sentences: Iterable[str]) -> str:
    """Return a text without these sentences, wherever they stand in it; a space takes their place."""
    longest_first = sorted(filter(str.strip, sentences), key=len, reverse=True)
    while found := next((sentence for sentence in longest_first if sentence in text), None):
        text = " ".join(filter(None, (part.strip() for part in text.split(found))))
    return text
