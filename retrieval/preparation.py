"""What is made before somebody waits for it: the folder of a packaged base, and what comes with the sample.

The sample, which a new workspace opens with, brings the tokens that BM25 searches, so that no analyzer is loaded before
a person has texts of their own; `make sample` makes them again.
"""

from contextlib import suppress

from data.cache import forget_shipped
from models.hub import ModelError
from models.packaged.bases import packaged_base
from retrieval.comparison.experiment import Experiment


def write_bases(experiment: Experiment) -> None:
    """Write the packaged bases of an experiment as folders that libraries read, where they are not there.

    It takes seconds and no library of models: another process reads these meanwhile. What goes wrong is told by whoever
    needs the base.
    """
    for spec in experiment.retriever:
        with suppress(ModelError, OSError):
            if base := packaged_base(str(getattr(spec, "model", ""))):
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
