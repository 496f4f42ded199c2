"""Where Milvus is: files of the workspace, or the server that the environment names; its secrets stay here."""

import os
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit

from data.failure import Failure

FILES = "Milvus Lite"


class MilvusError(Failure):
    """Milvus cannot be used; the detail `milvus` is where it was looked for.

    Neither that nor the message holds a user, a password or a token.
    """


@dataclass(frozen=True)
class Place:
    """A server's `address` (`http://host:port`) and `database`; without an address, files of the workspace."""

    address: str = ""
    database: str = ""
    token: str = field(default="", repr=False)

    @property
    def shown(self) -> str:
        """What a person may read of it, and what tells it from other places."""
        return "/".join(filter(None, (self.address, self.database))) or FILES

    def without_secrets(self, text: str) -> str:
        """Return a text of somebody else's with this place's token and password blotted out."""
        password = self.token.partition(":")[2]
        for secret in filter(None, (self.token, password)):
            for spelled in {secret, quote(secret), quote(secret, safe="")}:
                text = text.replace(spelled, "***")
        return text


def place() -> Place:
    """Return the server of `MILVUS_URI` and `MILVUS_TOKEN`, else the workspace's files. Raises `MilvusError`.

    A user and a password in the address become the token, where there is no other; the rest of it is shown.
    """
    uri, token = (os.environ.get(name, "").strip() for name in ("MILVUS_URI", "MILVUS_TOKEN"))
    if not uri:
        return Place()
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port
    except ValueError:  # it repeats the address, and with it the password
        host = None
    if not host or parts.scheme not in ("http", "https"):
        message = "MILVUS_URI is no address of a Milvus server; one looks like http://127.0.0.1:19530"
        raise MilvusError("milvus_address", message, milvus="MILVUS_URI")
    host = f"[{host}]" if ":" in host else host
    address = f"{parts.scheme}://{host}:{port or (443 if parts.scheme == 'https' else 19530)}"
    given = ":".join(unquote(part) for part in (parts.username, parts.password) if part)
    return Place(address, parts.path.strip("/").partition("/")[0], token or given)
