"""A comparison of tokenizers in a process of its own: the page that asks may be closed.

The process runs `python -m language run FOLDER`. The folder is named by what decides the result, so what was asked
before is there already.
"""

from dataclasses import dataclass, field

from pydantic import TypeAdapter

from data.cache import key_of
from data.workspace import workspace, write_text
from jobs.folder import Job
from language.tokenizers.comparison import Request
from models.sources import find_model
from text.analyzers import VERSION as ANALYZER_VERSION

_VERSION = 2  # raise when results of the same request change
_REQUEST = "request.json"


@dataclass(frozen=True)
class TokenizerRequest:
    """Tokenizers to compare over a text, named as for `language.corpus.find_corpus`."""

    data: str
    compared: Request = field(default_factory=Request)


_READER = TypeAdapter(TokenizerRequest)


class TokenizerJob(Job):
    """The job of one request, `workspace/language/<key>/`: `request.json`, and what `store.keep` writes."""

    @classmethod
    def of(cls, request: TokenizerRequest, fingerprint: str) -> "TokenizerJob":
        """Return the job of a request on the text, or the question set, with this fingerprint; it may not exist yet.

        Raises `ModelError` where there is no such model to compare with.
        """
        models = [_content(reference) for reference in request.compared.against]
        asked = _READER.dump_python(request, mode="json")
        return cls(workspace() / "language" / key_of(_VERSION, ANALYZER_VERSION, asked, fingerprint, models)[:16])

    def start(self, request: TokenizerRequest) -> None:
        """Start the process, where none is at work on it. Raises `LimitError` as `admit` does, and writes nothing."""
        self.admit()
        write_text(self.folder / _REQUEST, _READER.dump_json(request, indent=1).decode())
        self.launch("language", "run", self.folder)

    def request(self) -> TokenizerRequest:
        """Read what was asked. Raises `ValueError` where that is no request, `OSError` where there is none."""
        return _READER.validate_json((self.folder / _REQUEST).read_bytes())


def _content(reference: str) -> str:
    """What tells a model of this machine from one that took its place; the hub's are known by their names."""
    source = find_model(reference)
    return source.fingerprint("") if source.folder else ""
