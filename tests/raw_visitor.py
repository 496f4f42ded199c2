"""A visitor without a browser: Streamlit's own messages by a websocket, and files of any size and form by HTTP."""

import http.client
import json
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import urlsplit

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.web.server.starlette.starlette_app_utils import create_signed_value
from websockets.sync.client import ClientConnection, connect

MEGABYTE = b"x" * 10**6


@dataclass
class Visitor:
    """A visitor whose page is open at an address as long as the connection stays."""

    app: str
    cookies: dict[str, str]
    connection: ClientConnection
    session: str = ""

    def draw(self, query: str = "lang=en", page: str = "data") -> str:
        """Have a page drawn and return all that came of it, as text; the first page, "", would begin to compare."""
        message = BackMsg()
        message.rerun_script.query_string = query
        message.rerun_script.page_name = page
        self.connection.send(message.SerializeToString())
        return self.wait_until_drawn()

    def wait_until_drawn(self) -> str:
        """Wait until a page is drawn to its end."""
        messages = []
        while True:
            sent: bytes = self.connection.recv(timeout=120)  # type: ignore[assignment]
            message = ForwardMsg.FromString(sent)
            messages.append(sent.decode("utf-8", "ignore"))  # letters as they are, those in tables too
            if message.WhichOneof("type") == "new_session":
                self.session = message.new_session.initialize.session_id
            kind = message.WhichOneof("type")
            if kind == "script_finished" and message.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                return "\n".join(messages)

    def wait_for_text(self, text: str) -> bool:
        """Wait until a page that says this is drawn: others may be, before."""
        while text not in self.wait_until_drawn():
            pass
        return True

    def upload(self, megabytes: int, *, session: str = "", in_chunks: bool = False) -> int:
        """Hand in a file of so many megabytes, and return the answer's status."""
        start = b'--b\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n'
        end = b"\r\n--b--\r\n"
        length = {} if in_chunks else {"Content-Length": str(len(start) + len(end) + megabytes * 10**6)}
        headers = {"Content-Type": "multipart/form-data; boundary=b", **length}
        body: Iterable[bytes] = (start, *(MEGABYTE for _ in range(megabytes)), end)
        return self._request("PUT", self._file(session), headers, body, chunked=in_chunks)

    def delete_upload(self) -> int:
        return self._request("DELETE", self._file(), {})

    def get_status(self, path: str) -> int:
        return self._request("GET", path, {})

    def get_content(self, path: str) -> tuple[int, bytes]:
        """Return the content of an address, sent unchanged, and the status."""
        connection = http.client.HTTPConnection(urlsplit(self.app).netloc, timeout=120)
        try:
            connection.request("GET", path, headers={"Cookie": cookie_header(self.cookies)})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def _file(self, session: str = "") -> str:
        return f"/_stcore/upload_file/{session or self.session}/{secrets.token_hex(8)}"

    def _request(
        self, method: str, path: str, headers: dict[str, str], body: Iterable[bytes] = (), *, chunked: bool = False
    ) -> int:
        known = {"Cookie": cookie_header(self.cookies), "X-Xsrftoken": self.cookies["_streamlit_xsrf"]}
        connection = http.client.HTTPConnection(urlsplit(self.app).netloc, timeout=120)
        try:
            connection.request(method, path, body, known | headers, encode_chunked=chunked)
            return connection.getresponse().status
        finally:
            connection.close()


def cookie_header(cookies: dict[str, str]) -> str:
    return "; ".join(f"{name}={value}" for name, value in cookies.items())


@contextmanager
def visiting(app: str, cookies: dict[str, str] | None = None) -> Iterator[Visitor]:
    """Open the app, with these cookies of a sign-in, until the block ends."""
    health_connection = http.client.HTTPConnection(urlsplit(app).netloc)
    health_connection.request("GET", "/_stcore/health")
    token = SimpleCookie(health_connection.getresponse().getheader("Set-Cookie") or "")["_streamlit_xsrf"].value
    health_connection.close()
    cookies = {"_streamlit_xsrf": token, **(cookies or {})}
    headers = {"Cookie": cookie_header(cookies)}
    address = f"{app.replace('http', 'ws')}/_stcore/stream"
    options: dict[str, Any] = {"origin": app, "subprotocols": ["streamlit", token], "max_size": None}
    # read unread messages: closing would wait for them
    with connect(address, additional_headers=headers, max_queue=None, **options) as connection:
        yield Visitor(app, cookies, connection)


def signed_in(secret: str, app: str, issuer: str, name: str) -> dict[str, str]:
    """The cookie by which Streamlit knows a signed-in user."""
    claims = {"iss": issuer, "sub": name, "name": name, "nonce": secrets.token_hex(8)}
    content = json.dumps({**claims, "origin": app, "is_logged_in": True, "provider": "default"})
    return {"_streamlit_user": create_signed_value(secret, "_streamlit_user", content).decode()}
