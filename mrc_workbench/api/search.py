"""One question, one retriever."""

import pandas as pd

from mrc_workbench.api.arguments import check_query
from mrc_workbench.api.comparison import hits_table
from mrc_workbench.api.data import Source, load
from mrc_workbench.api.errors import ApiError
from mrc_workbench.api.names import Item
from mrc_workbench.api.progress import progress_bar
from mrc_workbench.api.retrievers import requested
from mrc_workbench.data.problems import naming_extras
from mrc_workbench.retrieval.comparison.experiment import Experiment
from mrc_workbench.retrieval.searcher import Searcher, searchers_of

_opened: dict[tuple[str, str], Searcher] = {}
_MOST_OPENED = 4  # retrievers that stay in memory


@naming_extras("mrc_workbench.search")
def search(data: Source, query: str, retriever: Item = "bm25", k: int = 10, *, progress: bool = True) -> pd.DataFrame:
    """Search the passages of a dataset.

    Parameters
    ----------
    data
        A `Dataset`, or anything that `load` takes.
    query
        The question.
    retriever
        A default retriever by its name, a dictionary or `Spec` object, or a model that `train` returned; see `compare`.
    k
        How many passages to return.
    progress
        Whether to show a progress bar while an index is built.

    Returns
    -------
    DataFrame
        The best k passages, best first: rank, score (higher is better), passage_id, title, text.

    Raises
    ------
    ApiError
        If an argument cannot be used.

    Examples
    --------
    >>> import mrc_workbench as mrc
    >>> mrc.search("sample", "자격루는 누가 만들었는가?", k=3, progress=False).columns.tolist()
    ['rank', 'score', 'passage_id', 'title', 'text']
    """
    check_query(query, k)
    dataset = load(data)
    request = requested(retriever, dataset.question_set)
    if request.runs or request.objects or not request.specs:
        raise ApiError("not_searchable", "search needs a retriever of this project: a name, a specification or a model")
    wanted = list(request.specs)[-1]
    experiment = Experiment(data=dataset.key, retriever=tuple(request.specs.values()))
    if any(not spec.searchable for spec in experiment.needed([wanted])):
        raise ApiError("not_searchable", f"{wanted} is a run: it has rankings of known questions alone")
    opened = (dataset.question_set.fingerprint, experiment.model_dump_json())
    if opened not in _opened:
        with progress_bar("Opening", enabled=progress) as report:
            found = searchers_of(experiment, dataset.question_set, None, [wanted], report)
        while len(_opened) >= _MOST_OPENED:
            del _opened[next(iter(_opened))]
        _opened[opened] = found[wanted]
    return hits_table(_opened[opened], query, k)
