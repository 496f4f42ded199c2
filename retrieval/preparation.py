"""What the first comparison of all would wait for, made beside the first page or beforehand.

Each start of the server looks whether the packaged base lies in the workspace as a folder that libraries read, and has
a process write it where it does not: `python -m retrieval prepare`. The sample, which a new workspace opens with,
brings the tokens that BM25 searches, so that no analyzer is loaded before a person has texts of their own; `make
sample` makes them again.
"""

from threading import Thread

from data.cache import forget_shipped
from data.workspace import acting_as, shared_workspace
from jobs.detached import detached, make_ready
from models.packaged.bases import base_at_hand


def begin() -> None:
    """Have the libraries of jobs read, and the packaged base written where a first start finds none.

    Neither is waited for.
    """
    make_ready()
    if (base := base_at_hand()) and not base.folder.is_dir():
        Thread(target=_start, daemon=True).start()


def _start() -> None:
    with acting_as(""):
        detached("retrieval", "prepare", log=shared_workspace() / "cache" / "prepare.txt", light=True)


def prepare() -> None:
    """Write the packaged base where it is not there, as whoever needs it would."""
    if base := base_at_hand():
        base.write()


def ship() -> None:
    """Analyze the sample for BM25, and write what comes with it. Raises `OSError`."""
    from data.catalog import CATALOG, read_entry
    from retrieval.lexical.bm25 import BM25Options
    from text.tokens import ship

    sample = read_entry(CATALOG["sample"]).question_set
    texts = sample.passages.indexed_texts(title=BM25Options.title)
    analysis = BM25Options().analysis(texts)
    forget_shipped("tokens")
    for asked in ([question.text for question in sample.questions], texts):
        ship(analysis, asked)
