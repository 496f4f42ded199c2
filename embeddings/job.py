"""A request in a process of its own: the page that asks imports no torch, and may be closed.

The process runs `python -m embeddings run FOLDER`. The folder is named by what decides the result, so what was asked
before is there already.
"""

from data.cache import Arrays, key_of, load_arrays
from data.workspace import workspace, write_text
from embeddings.requests import REQUEST, Request, models_of
from embeddings.results import Evaluation
from embeddings.store import load
from jobs.folder import Job
from models.sources import find_model

_VERSION = 4  # raise when results of the same request change


class EmbeddingJob(Job):
    """The job of one request, `workspace/embeddings/<key>/`: `request.json`, and what `tasks.carry` leaves."""

    @classmethod
    def of(cls, request: Request, fingerprint: str) -> "EmbeddingJob":
        """Return the job of a request on the set with this fingerprint; it may not exist yet.

        Raises `ModelError` where there is no such model.
        """
        key = key_of(_VERSION, request.model_dump(mode="json"), fingerprint, [*map(_content, models_of(request))])[:16]
        return cls(workspace() / "embeddings" / key)

    def start(self, request: Request) -> None:
        """Start the process, where none is at work on it. Raises `LimitError` as `admit` does, and writes nothing."""
        self.admit()
        write_text(self.folder / "request.json", request.model_dump_json(indent=1))
        self.launch("embeddings", "run", self.folder)

    def request(self) -> Request:
        """Read what was asked. Raises `ValueError` where that is no request, `OSError` where there is none."""
        return REQUEST.validate_json((self.folder / "request.json").read_bytes())

    def evaluation(self) -> Evaluation:
        """Read the result of an evaluation. Raises `ValueError` where there is none."""
        return load(self.folder)

    def arrays(self) -> Arrays:
        """Read the arrays of any other result, as `tasks` names them. Raises `ValueError` where there are none."""
        found = load_arrays(self.folder / "arrays.npz") if self.done else None
        if found is None:
            raise ValueError(f"{self.folder} holds no finished result")
        return found


def _content(reference: str) -> str:
    """What tells a model of this machine from one that took its place; the hub's are known by their names."""
    source = find_model(reference)
    return source.fingerprint("") if source.folder else ""
