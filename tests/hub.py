"""A stand-in for the Hugging Face hub: the protocol that downloads and uploads use.

Build models of `tests.tiny_models` under `root / <hub id>`, enter `hub_server(root)`, and start a fresh process with
`hub_environment(url, home)`: the libraries read HF_ENDPOINT once, at import.
`TOKEN` permits writing to the repositories of `OWNER`.
"""

import base64
import hashlib
import json
import os
import re
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import yaml

BI_ENCODER = "snunlp/KR-SBERT-V40K-klueNLI-augSTS"
CROSS_ENCODER_BASE = "klue/roberta-base"
COMMIT = "5eed" * 10
OWNER = "somebody"
TOKEN = "hf_" + "thisIsNoRealToken" * 2
LFS_SUFFIXES = {".safetensors", ".bin", ".onnx"}


def hub_environment(url: str, home: Path) -> dict[str, str]:
    """Return this environment with the hub at `url`, its cache in `home` and no other hub setting."""
    prefixes = ("HF_", "HUGGING_FACE_", "HUGGINGFACE_", "TRANSFORMERS_", "SENTENCE_TRANSFORMERS_")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
    return variables | {"HF_ENDPOINT": url, "HF_HOME": str(home), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}


@contextmanager
def hub_server(root: Path) -> Iterator[str]:
    """Serve the models under `root / <organisation> / <name>` and give the URL.

    Raises AssertionError at the end where a client asked what the stand-in does not know.
    """
    with running_server(root) as server:
        yield server.url
        assert not server.unknown, f"add to tests/hub.py what the client asked for: {server.unknown}"


@contextmanager
def running_server(root: Path) -> Iterator["HubServer"]:
    """Serve as `hub_server` does and give the server itself, to look at `unknown` or `requests`."""
    with HubServer(root) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class HubServer(ThreadingHTTPServer):
    """The hub on a free port of this machine; `requests` and `unknown` hold lines such as `HEAD /path`.

    `private` holds the repositories that only their owner sees, `tokens` what clients brought.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.root = root
        self.requests: list[str] = []
        self.unknown: list[str] = []
        self.private: set[str] = set()
        self.tokens: set[str] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class HubResponse(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Repository(NamedTuple):
    name: str
    files: dict[str, bytes]
    private: bool


def answer(root: Path, target: str, private: Collection[str] = (), *, as_owner: bool = False) -> HubResponse | None:
    """Answer a GET of `target`, a path with its query; None where the stand-in does not know the question."""
    path = urlsplit(target).path
    query = urlsplit(target).query
    if re.fullmatch(_CLIENT_REGISTRY, path):
        return _json({})
    for pattern, respond in _ROUTES:
        if match := re.fullmatch(pattern, path):
            # Unquoted only now: a revision may hold a quoted slash.
            parts = {name: unquote(value) for name, value in match.groupdict("").items()}
            folder = root / parts["repo"]
            if not folder.is_dir() or (parts["repo"] in private and not as_owner):
                return _refusal("RepoNotFound", "Repository not found")
            if parts["revision"] not in ("", "main", COMMIT):
                return _refusal("RevisionNotFound", f"Invalid rev id: {parts['revision']}")
            repo = Repository(parts["repo"], _files(folder), parts["repo"] in private)
            return respond(repo, parts["path"], "recursive=true" in query.lower())
    return None


class _Handler(BaseHTTPRequestHandler):
    server: HubServer
    protocol_version = "HTTP/1.1"  # keeps the client's connection; every answer therefore has a length
    disable_nagle_algorithm = True  # headers and body are two writes: with it, each answer waits 40 ms

    def do_GET(self) -> None:
        self._send(answer(self.server.root, self.path, self.server.private, as_owner=self._token() == TOKEN))

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._send(answer_to_upload(self.server, urlsplit(self.path).path, body, self._token()))

    def _token(self) -> str:
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        self.server.tokens.add(token)
        return token

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the test's output clean; the server's `requests` hold the log."""

    def _send(self, reply: HubResponse | None) -> None:
        line = f"{self.command} {self.path}"
        self.server.requests.append(line)
        if reply is None:
            self.server.unknown.append(line)
            reply = HubResponse(404, {}, b"")
        self.send_response(reply.status)
        for name, value in (reply.headers | {"Content-Length": str(len(reply.body))}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)


def answer_to_upload(server: HubServer, path: str, body: bytes, token: str) -> HubResponse | None:
    """Answer a POST of `body`; None where the stand-in does not know the question."""
    steps = (
        (r"/api/validate-yaml", _validate_card),
        (r"/api/repos/create", _create),
        (rf"/api/models/{_MODEL}/preupload/main", _preupload),
        (rf"/api/models/{_MODEL}/commit/main", _commit),
    )
    for pattern, respond in steps:
        if match := re.fullmatch(pattern, path):
            if token != TOKEN:
                return _refusal("", "Invalid username or password.", 401)
            return respond(server, match.groupdict().get("repo", ""), body)
    return None


def _validate_card(server: HubServer, repo: str, body: bytes) -> HubResponse:
    content = json.loads(body)["content"]
    head = re.match(r"---\n(.*?)\n---\n", content, re.DOTALL)
    about = yaml.safe_load(head[1]) if head else None
    errors = [] if isinstance(about, dict) else [{"message": f"the card has no head: {content}"}]
    return _json({"errors": errors, "warnings": []}, 400 if errors else 200)


def _create(server: HubServer, repo: str, body: bytes) -> HubResponse:
    request = json.loads(body)
    owner = request.get("organization") or OWNER
    repo = f"{owner}/{request['name']}"
    if owner != OWNER:
        return _refusal("", f"You don't have the rights to create a model under the namespace {owner!r}", 403)
    if (server.root / repo).is_dir():
        return _json({"error": "You already created this model repo", "url": f"{server.url}/{repo}"}, 409)
    (server.root / repo).mkdir(parents=True)
    if request.get("visibility") == "private":
        server.private.add(repo)
    return _json({"url": f"{server.url}/{repo}"})


def _preupload(server: HubServer, repo: str, body: bytes) -> HubResponse:
    # every file is small enough to come with the commit; the real hub takes weights another way
    paths = [file["path"] for file in json.loads(body)["files"]]
    return _json({"files": [{"path": path, "uploadMode": "regular", "shouldIgnore": False} for path in paths]})


def _commit(server: HubServer, repo: str, body: bytes) -> HubResponse:
    for entry in map(json.loads, body.splitlines()):
        if entry["key"] == "file":
            file = (server.root / repo / entry["value"]["path"]).resolve()
            assert file.is_relative_to((server.root / repo).resolve())
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(base64.b64decode(entry["value"]["content"], validate=True))
        else:
            assert entry["key"] == "header", entry["key"]
    return _json({"success": True, "commitOid": COMMIT, "commitUrl": f"{server.url}/{repo}/commit/{COMMIT}"})


def _resolve(repo: Repository, path: str, recursive: bool) -> HubResponse:
    if path not in repo.files:
        return _refusal("EntryNotFound", "Entry not found")
    body = repo.files[path]
    headers = {"ETag": f'"{_blob_id(body)}"', "X-Repo-Commit": COMMIT}
    if _in_lfs(path):
        # The ETag beside these is the pointer file's on the hub; the cache names its blob by the linked one.
        headers |= {"X-Linked-ETag": f'"{hashlib.sha256(body).hexdigest()}"', "X-Linked-Size": str(len(body))}
    return HubResponse(200, headers, body)


def _model_info(repo: Repository, path: str, recursive: bool) -> HubResponse:
    library = "sentence-transformers" if "modules.json" in repo.files else "transformers"
    task = "sentence-similarity" if "modules.json" in repo.files else "fill-mask"
    name = repo.name
    author = repo.name.partition("/")[0]
    about = {"_id": COMMIT[:24], "id": name, "modelId": name, "author": author, "sha": COMMIT}
    state = {"private": repo.private, "gated": False, "disabled": False, "downloads": 0, "likes": 0}
    kind = {"tags": [library, "safetensors", "ko"], "library_name": library, "pipeline_tag": task}
    return _json({**about, **state, **kind, "siblings": [{"rfilename": name} for name in repo.files]})


def _tree(repo: Repository, path: str, recursive: bool) -> HubResponse:
    prefix = f"{path}/" if path else ""
    inside = [name for name in repo.files if name.startswith(prefix)]
    if not inside:
        return _refusal("EntryNotFound", f"{path} does not exist on the revision")
    folders = {parent.as_posix() for name in inside for parent in Path(name).parents} - {"."}
    entries = [_tree_folder(name) for name in sorted(folders) if name.startswith(prefix)]
    entries += [_tree_file(name, repo.files[name]) for name in inside]
    return _json([entry for entry in entries if recursive or "/" not in entry["path"].removeprefix(prefix)])


# Asked once a day before the first request, to complete the client's user agent; an empty list will do.
_CLIENT_REGISTRY = r"/api/[a-z]+-harnesses"
_MODEL = r"(?P<repo>[^/]+/[^/]+)"
_ROUTES = (
    (rf"/{_MODEL}/resolve/(?P<revision>[^/]+)/(?P<path>.+)", _resolve),
    (r"/api/models/(?P<repo>[^/]+(?:/[^/]+)?)(?:/revision/(?P<revision>[^/]+))?(?P<path>)", _model_info),
    (rf"/api/models/{_MODEL}/tree/(?P<revision>[^/]+)(?:/(?P<path>.+))?", _tree),
)


def _tree_folder(name: str) -> dict[str, Any]:
    return {"type": "directory", "oid": _blob_id(name.encode()), "size": 0, "path": name}


def _tree_file(name: str, body: bytes) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "file", "oid": _blob_id(body), "size": len(body), "path": name}
    if _in_lfs(name):
        entry["lfs"] = {"oid": hashlib.sha256(body).hexdigest(), "size": len(body), "pointerSize": 134}
    return entry


def _refusal(code: str, message: str, status: int = 404) -> HubResponse:
    headers = {"X-Error-Code": code, "X-Error-Message": message, "Content-Type": "application/json"}
    if code == "EntryNotFound":
        headers["X-Repo-Commit"] = COMMIT  # with it the client remembers that the file is absent
    return HubResponse(status, headers, json.dumps({"error": message}).encode())


def _json(content: object, status: int = 200) -> HubResponse:
    return HubResponse(status, {"Content-Type": "application/json; charset=utf-8"}, json.dumps(content).encode())


def _files(folder: Path) -> dict[str, bytes]:
    # Looked up by name, so no path of a request ever touches the disk.
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def _in_lfs(name: str) -> bool:
    return Path(name).suffix in LFS_SUFFIXES


def _blob_id(body: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(body) + body, usedforsecurity=False).hexdigest()
