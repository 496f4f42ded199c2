"""The public way in: a corpus becomes a question set whose questions were made of its passages."""

from dataclasses import dataclass

from chat.endpoint import Endpoint
from data.records import Maker, Passages, Question, QuestionSet
from questions.drafts import Draft, MakerOptions, Progress, QuestionsError, sentence_drafts, title_drafts
from questions.written import Unanswered, Written, written_drafts


@dataclass(frozen=True)
class MadeQuestions:
    """The set, of how many passages its questions are, and the passages a language model wrote nothing usable of.

    `left` passages were not asked about: there was no endpoint.
    """

    question_set: QuestionSet
    passages_asked: int
    unanswered: tuple[Unanswered, ...] = ()
    left: int = 0


def make_questions(
    question_set: QuestionSet,
    options: MakerOptions,
    endpoint: Endpoint | None = None,
    *,
    name: str = "",
    on_progress: Progress | None = None,
) -> MadeQuestions:
    """Make questions of the passages of a set; those it has are not looked at.

    The same passages, options and, where a language model writes, kept answers give the same set. Equal questions are
    one, with the passages of all. Raises `QuestionsError` where no question comes, `EndpointError` where the language
    model cannot be asked; what it wrote until then is kept, and made use of the next time.
    """
    tell, passages = on_progress or _say_nothing, question_set.passages
    written = Written()
    match options.by:
        case Maker.TITLE:
            drafts = list(title_drafts(passages, options))
        case Maker.SENTENCE:
            drafts = sentence_drafts(passages, options, tell)
        case Maker.MODEL:
            written = written_drafts(passages, options, endpoint, tell)
            drafts = written.drafts
    if not drafts:
        raise _nothing_made(options, written)
    made = QuestionSet(name or f"{question_set.name} · {options.made}", passages, _questions(drafts, passages, options))
    return MadeQuestions(made, len({draft.row for draft in drafts}), tuple(written.unanswered), written.left)


def _questions(drafts: list[Draft], passages: Passages, options: MakerOptions) -> tuple[Question, ...]:
    merged: dict[str, list[Draft]] = {}
    for draft in drafts:
        merged.setdefault(draft.text, []).append(draft)
    return tuple(
        Question(
            id=f"made{number}",
            text=text,
            relevant=tuple(passages.ids[row] for row in dict.fromkeys(draft.row for draft in same)),
            made=options.made,
            hidden=any(draft.hidden for draft in same),
        )
        for number, (text, same) in enumerate(merged.items(), start=1)
    )


def _nothing_made(options: MakerOptions, written: Written) -> QuestionsError:
    if options.by is Maker.TITLE:
        return QuestionsError("no_titles", "no passage has a title that could ask for it")
    if options.by is Maker.SENTENCE:
        return QuestionsError("no_sentences", "no passage has a sentence to spare: they are too short, or repeat")
    if written.unanswered:
        first = written.unanswered[0].said
        return QuestionsError("nothing_usable", f"no answer held a list of questions; the first: {first}", first=first)
    return QuestionsError("nothing_written", "nothing was written yet: an endpoint is needed")


def _say_nothing(done: int, total: int) -> None:
    del done, total
