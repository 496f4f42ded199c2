"""A small Korean set with a finished comparison of BM25, and the Compare page at its lab of words."""

from streamlit.testing.v1 import AppTest

from data.split import Part
from data.store import CATALOG, StoredSet, keep, read_entry
from retrieval.comparison.compare import compare
from retrieval.comparison.experiment import Experiment
from retrieval.comparison.store import ComparisonJob
from retrieval.comparison.store import keep as keep_comparison
from tests.views.driving import run
from views.choices import choices_for
from views.resources.sets import question_set


def page() -> None:
    from views.compare import page as compare_page

    compare_page.draw()


def sample() -> StoredSet:
    """The sample with every fourth question: it is read in a second."""
    whole = read_entry(CATALOG["sample"]).question_set
    return keep(whole.with_questions(range(0, len(whole.questions), 4)))


def finished(data: StoredSet, experiment: Experiment) -> Experiment:
    """Carry an experiment out, and keep what came out where the page looks for it."""
    keep_comparison(compare(experiment, question_set(data.key)), ComparisonJob.of(experiment, data.fingerprint).folder)
    return experiment


def compared(data: StoredSet, *names: str, part: Part = Part.ALL) -> Experiment:
    """A finished comparison of retrievers that can be picked, over all questions or a part of them."""
    return finished(data, choices_for(data).experiment(data, list(names), part))


def opened(*names: str, **address: str) -> AppTest:
    """The page at the lab of words, in English."""
    app = AppTest.from_function(page, default_timeout=60)
    look = {"lang": "en", "view": "tune", "lab": "lexical", "part": "all", "retrievers": "|".join(names)}
    app.query_params.update({**look, **address})
    return run(app)


def texts(app: AppTest) -> str:
    """All that is said in Markdown, without what escapes it."""
    return "\n".join(element.value.replace("\\", "") for element in (*app.markdown, *app.caption))
