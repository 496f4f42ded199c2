"""Requests of a page, and each in a process of its own: the page that asks imports no torch, and may be closed.

The process runs `python -m embeddings run FOLDER`. The folder is named by what decides the result, so what was asked
before is there already."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from data.cache import Arrays, load_arrays
from data.split import Part
from embeddings.cost import SECONDS
from embeddings.geometry import MOST, Projection
from embeddings.results import Evaluation, load
from jobs.folder import RequestJob
from models.sources import contents

Sentence = Annotated[str, Field(min_length=1, max_length=10_000)]


class _Request(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    data: str  # key, name or catalog id of a set of pairs, or a file


class EvaluationRequest(_Request):
    """Models on a part of a set; without one, on what figures are told of."""

    task: Literal["evaluate"] = "evaluate"
    models: Annotated[tuple[str, ...], Field(min_length=1, max_length=20)]
    part: Part | None = None


class SimilarityRequest(_Request):
    """A matrix of cosines of these sentences by each model; a starter is made of the set's."""

    task: Literal["similarity"] = "similarity"
    models: Annotated[tuple[str, ...], Field(min_length=1, max_length=20)]
    sentences: Annotated[tuple[Sentence, ...], Field(min_length=1, max_length=MOST)]


class NeighboursRequest(_Request):
    """The sentences of a part that lie nearest to these."""

    task: Literal["neighbours"] = "neighbours"
    model: str
    part: Part = Part.ALL
    sentences: Annotated[tuple[Sentence, ...], Field(min_length=1, max_length=MOST)]
    k: Annotated[int, Field(ge=1, le=1000)] = 10


class MapRequest(_Request):
    """The sentences of a part on a plane; by principal components they are in every evaluation, too."""

    task: Literal["map"] = "map"
    model: str
    part: Part = Part.ALL
    projection: Projection = Projection.UMAP


class CostRequest(_Request):
    """The time of a cross-encoder and of a bi-encoder, with the set's sentences; each has so many seconds."""

    task: Literal["cost"] = "cost"
    bi_encoder: str
    cross_encoder: str
    seconds: Annotated[float, Field(gt=0, le=600)] = SECONDS


Request = EvaluationRequest | SimilarityRequest | NeighboursRequest | MapRequest | CostRequest
REQUEST: TypeAdapter[Request] = TypeAdapter(Annotated[Request, Field(discriminator="task")])


def models_of(request: Request) -> tuple[str, ...]:
    """The references of the models that a request needs."""
    if isinstance(request, EvaluationRequest | SimilarityRequest):
        return request.models
    if isinstance(request, CostRequest):
        return request.bi_encoder, request.cross_encoder
    return (request.model,)


class EmbeddingJob(RequestJob[Request]):
    """The job of one request, and what `python -m embeddings run` leaves."""

    place, form, versions = "embeddings", REQUEST, (4,)

    @classmethod
    def beside(cls, request: Request) -> tuple[object, ...]:
        return (contents(models_of(request)),)

    def evaluation(self) -> Evaluation:
        """Read the result of an evaluation. Raises `ValueError` where there is none."""
        return load(self.folder)

    def arrays(self) -> Arrays:
        """Read the arrays of any other result, as the command names them. Raises `ValueError` where there are none."""
        found = load_arrays(self.folder / "arrays.npz") if self.done else None
        if found is None:
            raise ValueError(f"{self.folder} holds no finished result")
        return found
