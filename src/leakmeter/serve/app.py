"""The web application: routes of the Open Inference Protocol v2, a key and a rate limit in front of them."""

from __future__ import annotations

import asyncio
import hmac
import math
import time

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException as AnyHTTPException

from leakmeter import __version__
from leakmeter.errors import LeakmeterError, UsageError
from leakmeter.serve.model import Served
from leakmeter.victims.remote.access import is_loopback
from leakmeter.victims.victim import Responder

_ROWS, _NUMBER, _SLACK = 1024, 32, 1 << 16  # rows of a request, bytes of JSON for a number, and for all the rest
_AT_ONCE = 8  # bodies in memory
_SECONDS = 30.0  # for a body to arrive


class Guard:
    """Lets requests with the right key pass, a second's worth at once and `rate` a second in the long run.

    The rate counts wrong keys, too: guessing is not faster than asking. A request that names another host is a page's
    in a browser, made to ask this machine under a name of its own; so is one that is not sent as JSON.
    """

    def __init__(self, key: str | None, rate: float | None) -> None:
        self._wanted = None if key is None else f"Bearer {key}".encode()
        self._rate = rate
        self._full = max(1.0, rate or 1.0)
        self._left, self._at = self._full, time.monotonic()

    async def __call__(self, request: Request) -> None:
        """Refuses with 401 or 429. On the event loop, where no two requests are looked at together."""
        if self._rate is not None and (wait := self._take(self._rate)) > 0:
            raise HTTPException(429, "too many requests", {"retry-after": str(math.ceil(wait))})
        if not is_loopback(_host(request.headers.get("host", ""))):
            raise HTTPException(421, "expected the name of this machine, such as 127.0.0.1, as the host")
        if request.method == "POST" and not _is_json(request.headers.get("content-type", "")):
            raise HTTPException(415, "expected the content type application/json")
        got = request.headers.get("authorization", "").encode()
        if self._wanted is not None and not hmac.compare_digest(got, self._wanted):
            raise HTTPException(401, "expected the key as a bearer token", {"www-authenticate": "Bearer"})

    def _take(self, rate: float) -> float:
        """Takes one request's worth; else the seconds until there is one."""
        now = time.monotonic()
        self._left = min(self._full, self._left + (now - self._at) * rate)
        self._at = now
        if self._left < 1:
            return (1 - self._left) / rate
        self._left -= 1
        return 0.0


def make_app(victim: Responder, *, key: str | None = None, rate: float | None = None) -> FastAPI:
    """The application that `serve` runs."""
    model = Served(victim)
    app = FastAPI(title="leakmeter", docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(_health(model))
    app.include_router(_model(model, Guard(key, rate)))

    @app.exception_handler(AnyHTTPException)
    def refused(request: Request, error: AnyHTTPException) -> JSONResponse:  # noqa: ARG001
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)

    @app.exception_handler(LeakmeterError)
    def failed(request: Request, error: LeakmeterError) -> JSONResponse:  # noqa: ARG001
        return JSONResponse({"error": str(error)}, 400 if isinstance(error, UsageError) else 500)

    return app


def _health(model: Served) -> APIRouter:
    """Open to everyone: it tells nothing about the model."""
    routes = APIRouter(prefix="/v2")

    @routes.get("")
    def server() -> dict[str, object]:
        return {"name": "leakmeter", "version": __version__, "extensions": []}

    @routes.get("/health/live")
    @routes.get("/health/ready")
    @routes.get(f"/models/{model.name}/ready")
    def ready() -> Response:
        return Response()

    return routes


def _model(model: Served, guard: Guard) -> APIRouter:
    routes = APIRouter(prefix=f"/v2/models/{model.name}", dependencies=[Depends(guard)])
    waiting, most = asyncio.Semaphore(_AT_ONCE), _SLACK + _NUMBER * _ROWS * model.features

    @routes.get("")
    def metadata() -> dict[str, object]:
        return model.metadata()

    @routes.post("/infer")
    async def infer(request: Request) -> Response:
        async with waiting:
            body = await _bounded(request, most)
            return Response(await run_in_threadpool(model.infer, body), media_type="application/json")

    return routes


def _host(header: str) -> str:
    """The host without its port."""
    name, colon, port = header.rpartition(":")
    return (name if colon and port.isdecimal() else header).strip("[]").lower()


def _is_json(header: str) -> bool:
    return header.partition(";")[0].strip().lower() == "application/json"


async def _bounded(request: Request, most: int) -> bytes:
    """The body, no longer than a request can need and in time."""
    parts, length = [], 0
    try:
        async with asyncio.timeout(_SECONDS):
            async for part in request.stream():
                length += len(part)
                if length > most:
                    raise HTTPException(413, f"expected a body of at most {most:,} bytes; send fewer rows at once")
                parts.append(part)
    except TimeoutError as error:
        raise HTTPException(408, f"expected the whole request within {_SECONDS:g} s") from error
    return b"".join(parts)
