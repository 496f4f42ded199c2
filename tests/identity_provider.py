"""A local stand-in for an OpenID provider: discovery, consent, token and key.

The browser's cookie `person` selects the user, as if they had a session with the provider. The authorization code flow
with PKCE (RFC 7636); identity tokens are signed with RS256 (OpenID Connect Core 1.0, 3.1).
"""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

CLIENT = "workbench"
SECRET = "the client's own"  # noqa: S105


class AuthorizationRequest(NamedTuple):
    """The request behind a code, until the code is exchanged."""

    person: str
    redirect: str
    nonce: str
    challenge: str


class Provider(ThreadingHTTPServer):
    """The server, its key, and the codes that were not given back yet."""

    daemon_threads = True

    def __init__(self) -> None:
        from joserfc.jwk import RSAKey

        super().__init__(("127.0.0.1", 0), _Answers)
        self.key = RSAKey.generate_key(2048, {"kid": "1", "use": "sig", "alg": "RS256"})
        self.pending_requests: dict[str, AuthorizationRequest] = {}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def identity(self, request: AuthorizationRequest) -> str:
        from joserfc import jwt

        now = int(time.time())
        subject = f"subject/../{request.person}"  # an identifier is never a path
        claims = {"iss": self.address, "sub": subject, "aud": CLIENT, "iat": now, "exp": now + 600}
        claims |= {"nonce": request.nonce, "name": request.person}
        claims |= {"email": f"{request.person}@example.org", "email_verified": True}
        return jwt.encode({"alg": "RS256", "kid": "1"}, claims, self.key)


class _Answers(BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/.well-known/openid-configuration":
            self._json(self._configuration())
        elif parts.path == "/keys":
            self._json({"keys": [self.server.key.as_dict(private=False)]})
        elif parts.path == "/authorize":
            self._authorize({name: values[0] for name, values in parse_qs(parts.query).items()})
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        given = {name: values[0] for name, values in parse_qs(body).items()}
        authorization = self.server.pending_requests.pop(given.get("code", ""), None)
        if (
            self.path != "/token"
            or authorization is None
            or not self._is_the_client(given)
            or not _matches_request(authorization, given)
        ):
            self._json({"error": "invalid_grant"}, 400)
            return
        identity = self.server.identity(authorization)
        self._json({"access_token": "none", "token_type": "Bearer", "expires_in": 600, "id_token": identity})

    def _configuration(self) -> dict[str, Any]:
        address = self.server.address
        endpoints = {"authorization_endpoint": f"{address}/authorize", "token_endpoint": f"{address}/token"}
        kinds = {"response_types_supported": ["code"], "subject_types_supported": ["public"]}
        methods = {"id_token_signing_alg_values_supported": ["RS256"], "code_challenge_methods_supported": ["S256"]}
        return {"issuer": address, "jwks_uri": f"{address}/keys", **endpoints, **kinds, **methods}

    def _authorize(self, given: dict[str, str]) -> None:
        cookie = SimpleCookie(self.headers.get("Cookie", "")).get("person")
        if cookie is None or given["client_id"] != CLIENT:
            self.send_error(403)
            return
        code = secrets.token_urlsafe(16)
        challenge = given["code_challenge"]
        self.server.pending_requests[code] = AuthorizationRequest(
            cookie.value, given["redirect_uri"], given["nonce"], challenge
        )
        self.send_response(302)
        self.send_header("Location", f"{given['redirect_uri']}?{urlencode({'code': code, 'state': given['state']})}")
        self.end_headers()

    def _is_the_client(self, given: dict[str, str]) -> bool:
        expected = "Basic " + base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        return self.headers.get("Authorization") == expected or given.get("client_secret") == SECRET

    def _json(self, content: object, status: int = 200) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...


def _matches_request(request: AuthorizationRequest, given: dict[str, str]) -> bool:
    digest = hashlib.sha256(given.get("code_verifier", "").encode()).digest()
    challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return given.get("redirect_uri") == request.redirect and challenge == request.challenge


@contextmanager
def running_provider() -> Iterator[Provider]:
    """Run a provider until the block ends."""
    with Provider() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def secrets_for(provider: Provider, app: str) -> str:
    """Return the content of `secrets.toml` by which an app at this address lets people sign in."""
    return f"""
[auth]
redirect_uri = "{app}/oauth2callback"
cookie_secret = "{secrets.token_urlsafe(32)}"
client_id = "{CLIENT}"
client_secret = "{SECRET}"
server_metadata_url = "{provider.address}/.well-known/openid-configuration"
"""
