"""What the libraries raise while they load a model, as `ModelError` in words."""

from collections.abc import Iterator
from contextlib import contextmanager

from mrc_workbench.data.problems import Failure, naming_extras
from mrc_workbench.data.workspace import is_of_the_disk
from mrc_workbench.models.hub import ModelError

_OTHER_SHAPES = ("ignore_mismatched_sizes", "loading state_dict")
_OUT_OF_MEMORY = ("out of memory", "not enough memory", "can't allocate memory")


@contextmanager
def loading(reference: str) -> Iterator[None]:
    """Raise errors of libraries as `ModelError`: `weights_missing` for other shapes than described, or `unloadable`.

    A full disk and a full memory are not the model's fault: those errors are raised as they are. A library that is not
    installed raises `MissingExtraError`.
    """
    try:
        with naming_extras():
            yield
    except Failure:
        raise
    except Exception as error:
        if is_of_the_disk(error) or _is_of_the_memory(error):
            raise
        if isinstance(error, RuntimeError) and any(words in str(error) for words in _OTHER_SHAPES):
            raise other_weights(reference, "its files hold weights of other names or shapes") from error
        reason = _reason_of(error)
        message = f"the model {reference!r} cannot be loaded: {reason}"
        raise ModelError("unloadable", message, model=reference, reason=reason) from error


def _is_of_the_memory(error: Exception) -> bool:
    """Whether memory ran out: torch raises a `RuntimeError` of its own, for a device and for the machine."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(words in str(error).lower() for words in _OUT_OF_MEMORY)
    )


def _reason_of(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "a configuration file is nested too deeply"
    return next(iter(str(error).splitlines()), "")[:300] or type(error).__name__


def other_weights(reference: str, why: str) -> ModelError:
    """Return the error of a model whose files hold other weights than it describes."""
    message = f"{reference!r}: its configuration and its weights do not belong together: {why}"
    return ModelError("weights_missing", message, model=reference)
