"""The request that an HTTP endpoint is sent for a query, and where its answer holds ids and scores.

`{query}` and `{k}` in the address are replaced in percent-encoding, in the JSON body as JSON: a query cannot break out
of its string, and `"{k}"` or a bare `{k}` becomes a number.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote, urlsplit

from mrc_workbench.data.workspace import user
from mrc_workbench.models.llm.endpoint import may_be_given
from mrc_workbench.retrieval.outside.problems import OutsideError, shortened

Method = Literal["GET", "POST"]
SECRETS = "MRC_SECRET_"  # how the names of environment variables begin whose values may be sent as headers
_BARE_K = re.compile(r"""(?<=[:\[,\s])\{k\}(?=[,\]}\s])""")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_NOT_PUBLIC = re.compile(r"authorization|cookie|token|secret|password|api[-_]?key", re.IGNORECASE)


def checked_url(url: str) -> str:
    """Return the address of an endpoint. Raises `OutsideError`: it must be http(s) and hold no password."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or not url.isprintable() or " " in url:
        raise OutsideError("outside_url", "url must be an address that begins with http:// or https://")
    if "@" in parts.netloc:
        raise OutsideError("outside_url_password", "url must not hold a user or a password; use secret_headers")
    if "{" in parts.netloc:
        raise OutsideError("outside_url_host", "url may hold {query} and {k} only after the host")
    return url


def checked_body(body: str) -> str:
    """Return the template of a JSON body. Raises `OutsideError` if it is not JSON."""
    if body.strip():
        _template(body)
    return body


def checked_headers(headers: Mapping[str, str]) -> None:
    """Raise `OutsideError` if a header cannot be sent, or its name says that it is a secret."""
    for name, value in headers.items():
        if not _HEADER.fullmatch(name) or not (value.isascii() and value.isprintable()):
            message = f"headers: {name!r} and its value must be printable ASCII on one line"
            raise OutsideError("outside_header", message, name=shortened(name))
        if _NOT_PUBLIC.search(name):
            message = f"headers: {name!r} looks like a secret; name its environment variable in secret_headers"
            raise OutsideError("outside_header_secret", message, name=name)


def checked_secrets(secret_headers: Mapping[str, str]) -> None:
    """Raise `OutsideError` unless headers come from variables that are there to be sent."""
    for name, variable in secret_headers.items():
        if not _HEADER.fullmatch(name):
            message = f"secret_headers: {name!r} is not the name of a header"
            raise OutsideError("outside_header", message, name=shortened(name))
        if not re.fullmatch(rf"{SECRETS}[A-Z0-9_]+", variable):
            message = f"secret_headers: {variable!r} must be an environment variable named {SECRETS}…"
            raise OutsideError("outside_variable", message, variable=shortened(variable))


def checked_path(path: str) -> str:
    """Return a JMESPath expression. Raises `OutsideError` if it is none."""
    import jmespath

    try:
        jmespath.compile(path)
    except (jmespath.exceptions.JMESPathError, RecursionError) as error:
        message = f"{path!r} is not a JMESPath expression: {shortened(error)}"
        raise OutsideError("outside_jmespath", message, path=shortened(path)) from error
    return path


def _template(body: str) -> Any:
    try:
        return json.loads(_BARE_K.sub('"{k}"', body))
    except (ValueError, RecursionError) as error:
        reason = shortened(error)
        raise OutsideError("outside_body", f"body must be JSON: {reason}", reason=reason) from error


@dataclass(frozen=True)
class Request:
    """What an endpoint is sent. `secret_headers` are environment variables by header; their values are never stored."""

    url: str
    method: Method = "POST"
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    secret_headers: Mapping[str, str] = field(default_factory=dict)

    def url_for(self, query: str, k: int) -> str:
        """Return the address with a query and k in it."""
        return self.url.replace("{query}", quote(query, safe="", errors="replace")).replace("{k}", str(k))

    def content_for(self, query: str, k: int) -> bytes | None:
        """Return the JSON body for a query and k, None without one."""
        if not self.body.strip():
            return None
        return json.dumps(_filled(_template(self.body), query, k)).encode()

    def sent_headers(self) -> dict[str, str]:
        """Return the headers with the values of the secret ones.

        Raises `OutsideError`: `outside_address_refused` if this user may not give addresses, `outside_secret_refused`
        where people sign in, since variables of the server are not theirs, `outside_secret_missing`.
        """
        if not may_be_given():
            raise OutsideError("outside_address_refused", "the server's administrator allows no addresses of users")
        if self.secret_headers and user():
            raise OutsideError("outside_secret_refused", "environment variables of a shared server are not sent")
        secrets: dict[str, str] = {}
        for name, variable in self.secret_headers.items():
            value = os.environ.get(variable, "").strip()
            if not value or not (value.isascii() and value.isprintable()):
                message = f"the environment variable {variable} is not set, or is not one line of ASCII"
                raise OutsideError("outside_secret_missing", message, variable=variable)
            secrets[name] = value
        return {"accept": "application/json", **self.headers, **secrets}

    def without_secrets(self, text: str) -> str:
        """Return text of the endpoint without the values of secret headers."""
        for variable in self.secret_headers.values():
            for secret in os.environ.get(variable, "").split():  # also without the word before it, such as Bearer
                text = text.replace(secret, "…") if len(secret) > 6 else text
        return text


def _filled(template: Any, query: str, k: int) -> Any:
    if isinstance(template, dict):
        return {key: _filled(value, query, k) for key, value in template.items()}
    if isinstance(template, list):
        return [_filled(value, query, k) for value in template]
    if not isinstance(template, str):
        return template
    return k if template == "{k}" else template.replace("{k}", str(k)).replace("{query}", query)


@dataclass(frozen=True)
class Preset:
    """Values of a known engine to begin with."""

    url: str
    method: Method
    body: str
    ids: str
    scores: str
    secret_header: str = ""


PRESETS: dict[str, Preset] = {
    "plain": Preset(
        "http://127.0.0.1:8000/search",
        "POST",
        '{"query": "{query}", "k": {k}}',
        "results[*].id",
        "results[*].score",
    ),
    "workbench": Preset(
        "http://127.0.0.1:8700/search",
        "POST",
        '{"question": "{query}", "k": {k}}',
        "results[0].hits[*].id",
        "results[0].hits[*].score",
        "Authorization",
    ),
    "elasticsearch": Preset(
        "http://127.0.0.1:9200/passages/_search",
        "POST",
        '{"query": {"match": {"text": "{query}"}}, "size": {k}, "_source": false}',
        "hits.hits[*]._id",
        "hits.hits[*]._score",
        "Authorization",
    ),
    "meilisearch": Preset(
        "http://127.0.0.1:7700/indexes/passages/search",
        "POST",
        '{"q": "{query}", "limit": {k}, "showRankingScore": true}',
        "hits[*].id",
        "hits[*]._rankingScore",
        "Authorization",
    ),
    "typesense": Preset(
        "http://127.0.0.1:8108/collections/passages/documents/search?q={query}&query_by=text&per_page={k}",
        "GET",
        "",
        "hits[*].document.id",
        "",
        "X-TYPESENSE-API-KEY",
    ),
}
