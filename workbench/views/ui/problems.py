"""What went wrong, in the person's language, and what of the workspace cannot be read any more."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from mrc_workbench.data.formats.encodings import ENCODING_PROBLEMS
from mrc_workbench.data.problems import (
    MISSING_EXTRA,
    DataError,
    Failure,
    MissingExtraError,
    Problem,
    ProblemCode,
    with_extra,
)
from mrc_workbench.data.questions.judgements import damaged_files
from mrc_workbench.data.records import QuestionSet
from mrc_workbench.data.text.corpora import LanguageError
from mrc_workbench.data.text.dictionary import DictionaryError
from mrc_workbench.data.workspace import LimitError, is_of_the_disk, workspace
from mrc_workbench.labs.reading.rules import ReadingError
from mrc_workbench.workbench.views.ui.words import catalog, known, language, plain, word

_NAMED_BY_READERS = ("found", "expected", "unit", "reason")
_CONTROLS = {  # of a page, where a command has flags: the key of its label; others are the fields of columns
    ProblemCode.ANSWERS_ALONE: "search_answers",
    ProblemCode.GUESSED_ENCODING: "other_encoding",
    **dict.fromkeys(ENCODING_PROBLEMS, "encoding"),
}
_NAMED_BY_USERS = (ProblemCode.MISSING_COLUMN, ProblemCode.UNKNOWN_COLUMN)  # `found` lists the file's own columns


@contextmanager
def errors_told() -> Iterator[None]:
    """Show the words of what is wrong with data, a text or a limit, of a full disk, or of a library that is missing."""
    try:
        yield
    except (DataError, DictionaryError, LanguageError, LimitError) as error:
        st.error(plain(failure_text(error)), icon=":material/error:")
    except ImportError as error:
        if not isinstance(with_extra(error), MissingExtraError):
            raise
        st.error(plain(failure_text(error)), icon=":material/error:")
    except OSError as error:
        if not is_of_the_disk(error):
            raise
        st.error(word("app.disk", reason=plain(error.strerror or str(error))), icon=":material/error:")


def attempt(
    action: Callable[[], object],
    problem: str,
    told: DeltaGenerator | None = None,
    *,
    errors: tuple[type[Exception], ...] = (OSError,),
) -> bool:
    """Return whether an action succeeds; draw in `told` which limit it met, or the text `problem` with the reason."""
    try:
        action()
    except LimitError as error:
        why = plain(failure_text(error))
    except errors as error:
        why = word(problem, reason=plain(str(error)))
    else:
        return True
    (told or st).error(why, icon=":material/error:")
    return False


def failure_text(error: Exception) -> str:
    """Return why something failed, of what nobody foresaw its own words: not Markdown, escape it with `plain`."""
    error = with_extra(error)
    if isinstance(error, DataError):
        first = next((problem for problem in error.others if problem.leaves_out_row), None)
        return problem_text(error.problem, None, **({"first": problem_text(first)} if first else {}))
    if isinstance(error, Failure) and (key := next(filter(known, _keys_of(error)), None)):
        return word(key, **error.details)
    return str(error)


def _keys_of(error: Failure) -> tuple[str, ...]:
    """The locale keys that may hold the words of a failure; rooms with many codes have a section of their own."""
    code = error.code
    match error:
        case LanguageError():
            return (f"language.{code}",)
        case ReadingError():
            return (f"reading.{code}",)
        case DictionaryError():
            return (f"dictionary.{code}",)
    if code.startswith("outside_"):
        return (f"outside.{code}",)
    # an error read from disk does not say which room raised it
    rooms = (f"model.{code}", f"imported.{code}", f"milvus.{code}", f"made.{code}", f"limit.{code}", f"extra.{code}")
    return (*rooms, f"embedding.{code}", f"chat.{code}", f"dictionary.{code}")


def search_failure_text(error: Exception) -> str:
    """Return why a search failed; of what nobody foresaw only the first line, said to be such."""
    if isinstance(with_extra(error), Failure):
        return failure_text(error)
    first_line = next(iter(str(error).splitlines()), "")[:300]
    return word("search.failed", reason=first_line or type(error).__name__)


def tell_training_failure(
    code: str, message: str, base: str, unforeseen: str = "failure.unexpected", **details: str
) -> None:
    """Draw why a training ended, or was not tried out, and its own message where that says more."""
    foreseen = code != "unexpected" and known(f"failure.{code}")
    words = word(f"failure.{code}" if foreseen else unforeseen, base=plain(base), **details)
    st.error(words, icon=":material/error:")
    if message and code in ("data", "disk", "memory", MISSING_EXTRA, "option", "unexpected"):
        st.code(message, language=None, wrap_lines=True)


def problem_text(problem: Problem, texts: Mapping[str, str] | None = None, **values: str) -> str:
    """Return the words of a problem, led by its row; `texts` where no page is being drawn."""
    texts = texts or catalog(language())
    details = {name: _detail(problem, name, value, texts) for name, value in problem.details.items()}
    translated = Problem(problem.code, problem.row, {**details, **values})
    return " ".join(translated.in_words(texts[f"problem.{problem.code}"], texts["problem.row"]).split())


def reason_text(problem: Problem, texts: Mapping[str, str] | None = None) -> str:
    """Return the words of a problem without its row, for tables that have a column for it."""
    return problem_text(Problem(problem.code, None, problem.details), texts)


def _detail(problem: Problem, name: str, value: str | int, texts: Mapping[str, str]) -> str | int:
    if not isinstance(value, str):
        return value
    if name == "role":
        return texts[f"column.{value}"]
    if name == "flags":
        control = _CONTROLS.get(problem.code, "columns")
        return texts[f"control.{control}"].format(label=texts[f"data_page.{control}"])
    if name not in _NAMED_BY_READERS or problem.code in _NAMED_BY_USERS:
        return value
    return _translated(value, texts)


def _translated(value: str, texts: Mapping[str, str]) -> str:
    """The value with the phrases that readers use, and only those, in the person's language."""
    start = value[:1].lower() + value[1:]
    phrases = [key.removeprefix("detail.") for key in texts if key.startswith("detail.")]
    known = [phrase for phrase in phrases if start == phrase or start.startswith(f"{phrase} ")]
    if not known:
        return value
    longest = max(known, key=len)
    rest = value[len(longest) :].strip()
    if not longest.endswith(":"):  # a colon leads names of the file's own
        rest = _translated(rest, texts)
    return f"{texts[f'detail.{longest}']} {rest}".strip()


def tell_damaged_files(questions: QuestionSet) -> None:
    """Show which files with judgements or remarks of a set are damaged, and that nothing in them is overwritten."""
    names = [
        path.relative_to(workspace()) for path in damaged_files(questions.corpus_fingerprint, questions.fingerprint)
    ]
    if names:
        listed = ", ".join(f"`{name.as_posix()}`" for name in names)
        st.warning(word("damaged.files", names=listed), icon=":material/warning:")


def draw_damaged(names: Sequence[str], remove: Callable[[str], None]) -> None:
    """Draw a row for each of the folders of these names; `remove` is told the name of one that is to go."""
    for name in names:
        with st.container(border=True, horizontal=True, vertical_alignment="center"):
            st.markdown(word("damaged.about", name=plain(name)), width="stretch")
            with st.popover(word("damaged.remove"), icon=":material/delete:", key=f"damaged_{name}"):
                st.markdown(word("damaged.sure"))
                if st.button(word("damaged.remove"), type="primary", key=f"damaged_yes_{name}"):
                    remove(name)
                    st.rerun()


def draw_remove(key: str, remove: Callable[[str], None], *, sure: str, removed: str) -> None:
    """Draw the button that takes away what is kept by this key: asked by `sure`, a person says yes, and is told."""
    with st.popover(word("data_page.remove"), icon=":material/delete:", key=f"remove_{key}"):
        st.markdown(sure)
        if st.button(word("data_page.remove_yes"), icon=":material/delete:", key=f"remove_yes_{key}"):
            with errors_told():
                remove(key)
                st.toast(removed, icon=":material/delete:")
                st.rerun()
