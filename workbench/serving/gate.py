"""What every request passes: its id, the check of its host, and what is counted and logged of it."""

import json
import logging
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mrc_workbench.workbench.serving.limits import AccessLog, Logging
from mrc_workbench.workbench.serving.messages import Refused
from mrc_workbench.workbench.serving.metrics import Metrics

logger = logging.getLogger(__name__)
access = logging.getLogger(f"{__package__}.access")
GONE = 499  # the client closed the connection: nobody reads this status
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
_OWN_HOSTS = ("127.0.0.1", "localhost", "[::1]")
Answering = Callable[[object, int, dict[str, str]], JSONResponse]
Noted = dict[str, Any]


class Gate:
    """Middleware around the app. `methods` are those of each path; any other path is refused by the app itself."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        methods: dict[str, tuple[str, ...]],
        metrics: Metrics,
        logs: Logging,
        answer: Answering,
        any_host: bool,
    ) -> None:
        self.app, self._methods, self._metrics, self._logs = app, methods, metrics, logs
        self._answer, self._any_host = answer, any_host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers, began = Headers(scope=scope), time.perf_counter()
        given = headers.get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else uuid4().hex
        noted: Noted = {"request_id": request_id}
        scope.setdefault("state", {})["noted"] = noted
        status, size = 500, 0

        async def answered(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-ID"] = request_id
            elif message["type"] == "http.response.body":
                size += len(message.get("body", b""))
            await send(message)

        try:
            if early := self._early(scope, headers):
                await early(scope, receive, answered)
            else:
                await self.app(scope, receive, answered)
        except Exception:
            logger.exception("request %s failed", request_id)
            words = "something went wrong here; the log of this server has the details of this request id"
            noted["code"] = "failed"
            await self._answer({"code": "failed", "error": words}, 500, {})(scope, receive, answered)
        finally:
            self._note(scope, noted, status, size, time.perf_counter() - began)

    def _early(self, scope: Scope, headers: Headers) -> Response | None:
        """Return the answer to a wrong host or to OPTIONS; None for what the app answers."""
        # without a key, a page whose own name leads here could read answers in the name of whoever looks at it
        host = re.sub(r":\d+$", "", headers.get("host", "")).lower()
        if not self._any_host and host not in _OWN_HOSTS:
            error = Refused(421, "other_host", "without a key this server answers to 127.0.0.1 and localhost alone")
            scope["state"]["noted"]["code"] = error.code
            return self._answer({"code": error.code, "error": str(error)}, error.status, {})
        if scope["method"] == "OPTIONS" and scope["path"] in self._methods:
            return Response(status_code=204, headers={"Allow": ", ".join((*self._methods[scope["path"]], "OPTIONS"))})
        return None

    def _note(self, scope: Scope, noted: Noted, status: int, size: int, seconds: float) -> None:
        path = scope["path"] if scope["path"] in self._methods else "other"
        method = scope["method"] if scope["method"] in ("GET", "HEAD", "OPTIONS", "POST") else "other"
        self._metrics.count("mrc_requests_total", path=path, method=method, status=str(status))
        self._metrics.observe("mrc_request_duration_seconds", seconds, path=path)
        if "code" in noted:
            self._metrics.count("mrc_refusals_total", code=noted["code"])
        if retriever := noted.get("retriever"):
            self._metrics.observe("mrc_search_duration_seconds", seconds, retriever=retriever)
            if status < 300:
                self._metrics.count("mrc_queries_total", noted["questions"], retriever=retriever)
        is_slow = 0 < self._logs.slow_query_ms <= seconds * 1000
        if self._logs.access_log is AccessLog.NONE and not is_slow:
            return
        line = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "event": "slow_query" if is_slow else "request",
            **noted,
            "client": (scope.get("client") or ("",))[0],
            "method": scope["method"],
            "path": scope["path"][:200],
            "status": status,
            "bytes": size,
            "ms": round(seconds * 1000, 2),
        }
        access.warning(json.dumps(line))
