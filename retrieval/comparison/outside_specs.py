"""Retrievers that are not part of this project: an HTTP endpoint, and one that an installed package registers."""

import json
from functools import partial
from operator import eq, not_
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from mrc_workbench.retrieval.comparison.spec import CachedRetriever, Materials, Spec
from mrc_workbench.retrieval.outside.http_search import HttpCaller, http_retriever
from mrc_workbench.retrieval.outside.plugins import find_plugin
from mrc_workbench.retrieval.outside.problems import OutsideError
from mrc_workbench.retrieval.outside.request import (
    Method,
    Request,
    checked_body,
    checked_headers,
    checked_path,
    checked_secrets,
    checked_url,
)
from mrc_workbench.retrieval.outside.results import Order

Option = str | int | float | bool | list[str] | list[float]


class HttpSpec(Spec):
    """A search engine behind an HTTP endpoint, which is sent one request a query.

    `{query}` and `{k}` in `url` and in `body`, a JSON text or a table, are replaced. `ids` and `scores` are JMESPath
    expressions that give lists of equal length, such as `hits.hits[*]._id`; without `scores` the results keep their
    order. `secret_headers` name environment variables (`MRC_SECRET_…`) that hold the values of headers. `timeout` is in
    seconds; `concurrency` requests run at a time. Results are cached by these values: change `version`, any text, when
    the engine has changed.
    """

    kind: Literal["http"] = "http"
    url: str = Field(min_length=1)
    method: Method = "POST"
    body: str = Field(default="", exclude_if=not_)
    headers: dict[str, str] = Field(default_factory=dict, exclude_if=not_)
    secret_headers: dict[str, str] = Field(default_factory=dict, exclude_if=not_)
    ids: str = Field(min_length=1)
    scores: str = Field(default="", exclude_if=not_)
    order: Order = Field(default="score", exclude_if=partial(eq, "score"))
    timeout: Annotated[float, Field(gt=0, le=600)] = 10.0
    concurrency: Annotated[int, Field(ge=1, le=64)] = 4
    version: str = Field(default="", exclude_if=not_)

    @field_validator("body", mode="before")
    @classmethod
    def _body_of_a_table(cls, given: object) -> object:
        return json.dumps(given, ensure_ascii=False) if isinstance(given, dict) else given

    @model_validator(mode="after")
    def _can_be_sent(self) -> "HttpSpec":
        checked_url(self.url)
        checked_headers(self.headers)
        checked_secrets(self.secret_headers)
        checked_path(self.ids)
        if self.scores:
            checked_path(self.scores)
        if self.method == "GET" and self.body.strip():
            raise OutsideError("outside_get_body", "body is for method POST; put {query} into url")
        if "{query}" not in self.url + checked_body(self.body):
            raise OutsideError("outside_no_query", "url or body must hold {query}")
        return self

    @property
    def request(self) -> Request:
        return Request(self.url, self.method, self.body, self.headers, self.secret_headers)

    def caller(self, materials: Materials) -> HttpCaller:
        """Return what sends its requests."""
        return HttpCaller(self.request, self.ids, self.scores, self.timeout, self.concurrency, materials.on_progress)

    def make(self, materials: Materials) -> CachedRetriever:
        self.request.sent_headers()  # raises what is missing before anything is searched
        questions = materials.question_set
        build = partial(http_retriever, self.name, self.caller(materials), questions, self.order)
        return materials.kept(self, build, *filter(None, [questions.alias_fingerprint]))


class PluginSpec(Spec):
    """A retriever that an installed package or `MRC_RETRIEVERS` registers, by its name there (`entry`).

    `options` are passed to its factory. Results are cached by the options, the version of the package and the content
    of the module.
    """

    kind: Literal["plugin"] = "plugin"
    entry: str = Field(min_length=1)
    options: dict[str, Option] = Field(default_factory=dict, exclude_if=not_)

    def make(self, materials: Materials) -> CachedRetriever:
        plugin, questions = find_plugin(self.entry), materials.question_set
        build = partial(plugin.retriever, self.name, questions, self.options)
        known_by = (plugin.fingerprint(), *filter(None, [questions.alias_fingerprint]))
        return materials.kept(self, build, *known_by)

    def resolved(self, materials: Materials) -> dict[str, Any]:
        """Return its values, and the version of the code that was run."""
        values = super().resolved(materials)
        try:
            return values | {"code": find_plugin(self.entry).fingerprint()}
        except OutsideError:  # the retriever failed then, and says so itself
            return values
