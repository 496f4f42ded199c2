"""What the first comparison of all would wait for, done beside the first page: `python -m retrieval prepare`.

The sample, which a new workspace opens with, is analyzed for BM25, and the packaged base is written as a folder that
libraries read. Both are kept, so that this is work of the first start alone, and whoever needs it meanwhile waits for
it instead of doing it twice.
"""

from threading import Thread

from data.workspace import acting_as, shared_workspace
from jobs.detached import detached, make_ready, read_on

_FIRST = "sample"


def begin(*, signs_in: bool) -> None:
    """Have the libraries of jobs read, and before them a process prepare what a first start finds missing.

    It is started in a thread, and the page waits for neither. Where people sign in, each has a workspace of their own,
    and what is prepared is what all share.
    """
    is_first = not any((shared_workspace() / name).is_dir() for name in ("datasets", "users"))
    if make_ready(held=is_first) and is_first:
        Thread(target=_start, args=(signs_in,), daemon=True).start()


def _start(signs_in: bool) -> None:
    words = ("--shared",) if signs_in else ()
    with acting_as(""):
        detached("retrieval", "prepare", *words, log=shared_workspace() / "cache" / "prepare.txt", light=True)


def prepare(*, shared: bool = False) -> None:
    """Prepare what is not there: the sample's tokens and the packaged base, with `shared` that base alone."""
    from data.catalog import CATALOG, read_entry
    from models.packaged.bases import base_at_hand
    from retrieval.lexical.bm25 import BM25Options
    from text.tokens import tokens_of

    if not shared:
        sample = read_entry(CATALOG[_FIRST]).question_set
        texts = sample.passages.indexed_texts(title=BM25Options.title)
        analysis = BM25Options().analysis(texts)
        tokens_of(analysis, [question.text for question in sample.questions])  # first: they are few
        tokens_of(analysis, texts)
    read_on()
    if base := base_at_hand():
        base.write()
