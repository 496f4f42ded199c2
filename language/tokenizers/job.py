"""A comparison of tokenizers in a process of its own: the page that asks may be closed.

The process runs `python -m language run FOLDER`. The folder is named by what decides the result, so what was asked
before is there already.
"""

from dataclasses import dataclass, field

from pydantic import TypeAdapter

from jobs.folder import RequestJob
from language.comparison import Request
from models.sources import contents
from text.analyzers import VERSION as ANALYZER_VERSION


@dataclass(frozen=True)
class TokenizerRequest:
    """Tokenizers to compare over a text, named as for `language.corpus.find_corpus`."""

    data: str
    compared: Request = field(default_factory=Request)


class TokenizerJob(RequestJob[TokenizerRequest]):
    """The job of one request, and what `store.keep` writes."""

    place, form, versions = "language", TypeAdapter(TokenizerRequest), (2, ANALYZER_VERSION)

    @classmethod
    def beside(cls, request: TokenizerRequest) -> tuple[object, ...]:
        """What the models compared with hold."""
        return (contents(request.compared.against),)
