"""The MRC retrieval workbench: load questions and passages, compare retrievers on them, and train models.

    import mrc_workbench as mrc

    data = mrc.load("questions.csv")
    result = mrc.compare(data, ["bm25", "dense", "late", "mix"])
    result.differences("bm25")

The packages `data`, `models`, `retrieval`, `training`, `labs` and `workbench` are imported from here as well. In a
checkout they lie beside this folder, in an installation inside it.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mrc_workbench.api.comparison import ComparisonResult, compare, comparisons, open_comparison, search
    from mrc_workbench.api.data import Dataset, datasets, load
    from mrc_workbench.api.evaluation import Evaluation, evaluate, significance
    from mrc_workbench.api.training import TrainedModel, train

__all__ = [
    "ComparisonResult",
    "Dataset",
    "Evaluation",
    "TrainedModel",
    "compare",
    "comparisons",
    "datasets",
    "evaluate",
    "load",
    "open_comparison",
    "search",
    "significance",
    "train",
]

_FOLDER = Path(__file__).resolve().parent
if not (_FOLDER / "data").is_dir():  # a checkout
    __path__.append(str(_FOLDER.parent))

_MODULES = {
    "comparison": ("ComparisonResult", "compare", "comparisons", "open_comparison", "search"),
    "data": ("Dataset", "datasets", "load"),
    "evaluation": ("Evaluation", "evaluate", "significance"),
    "training": ("TrainedModel", "train"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a name of the API at its first use: `import mrc_workbench` loads no library."""
    if name == "__version__":
        from mrc_workbench.data.workspace import project_version

        return project_version()
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mrc_workbench.data.problems import raise_missing_extra

    with raise_missing_extra(f"mrc_workbench.{name}"):
        value = getattr(import_module(f"{__name__}.api.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the names of the API, and those of every module."""
    return sorted({*__all__, "__version__", *(name for name in globals() if name.startswith("__"))})
