"""The page's server: on this machine only, for this page only, with nothing but the standard library.

Other pages in the same browser can send requests here too. They do not know the token in the address; names that lead
here from elsewhere (DNS rebinding) are refused by the Host header, foreign pages by the Origin header.
"""

from __future__ import annotations

import json
import secrets
import struct
import tempfile
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from neuralcpm_bridge.errors import UserError

from .drawing import plane_map
from .tissue import Tissue, plane_of

LOOPBACK = "127.0.0.1"
PAGE = {
    "": ("index.html", "text/html; charset=utf-8"),
    "view.css": ("view.css", "text/css; charset=utf-8"),
    "view.js": ("view.js", "text/javascript; charset=utf-8"),
    "charts.js": ("charts.js", "text/javascript; charset=utf-8"),
}
MOST_BODY = 1 << 16
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

Answer = tuple[str, bytes]
"""Content type and content."""


class ViewServer(ThreadingHTTPServer):
    """Serves one tissue; requests take turns with it."""

    daemon_threads = True

    def __init__(self, tissue: Tissue, about: dict[str, Any], port: int = 0) -> None:
        try:
            super().__init__((LOOPBACK, port), Handler)
        except OSError as error:
            raise UserError(f"Port {port} cannot be used ({error.strerror}): pass another --port, or none.") from None
        self.tissue, self.about = tissue, about
        self.token = secrets.token_urlsafe(16)
        self.turn = threading.Lock()

    @property
    def origin(self) -> str:
        return f"http://{LOOPBACK}:{self.server_port}"

    @property
    def address(self) -> str:
        """What the user opens."""
        return f"{self.origin}/{self.token}/"


class Handler(BaseHTTPRequestHandler):
    """`/TOKEN/name`: the page's files, and what it asks of the tissue."""

    server: ViewServer
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        self._answer(READS)

    def do_POST(self) -> None:
        self._answer(CHANGES)

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads a line for every frame."""

    # -- who asks, and for what ------------------------------------------------------------------------------------

    def _answer(self, known: dict[str, Callable[[ViewServer, dict[str, Any]], Answer]]) -> None:
        try:
            refused = self._refusal()
            body = self._body()  # read in any case: what remains would be taken for the next request
            if refused is not None:
                return self._send(refused, "text/plain; charset=utf-8", b"This page is not for you.\n")
            address = urlsplit(self.path)
            name = address.path.removeprefix(f"/{self.server.token}/")
            if self.command == "GET" and name in PAGE:
                file, kind = PAGE[name]
                return self._send(HTTPStatus.OK, kind, (files(__package__) / "page" / file).read_bytes())
            if name not in known:
                return self._send(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", b"There is nothing here.\n")
            asked = body if self.command == "POST" else {key: v[-1] for key, v in parse_qs(address.query).items()}
            with self.server.turn:
                answer = known[name](self.server, asked)
            self._send(HTTPStatus.OK, *answer)
        except UserError as error:
            self._send(HTTPStatus.BAD_REQUEST, *as_json({"error": " ".join(str(error).split())}))
        except ConnectionError:  # the page went away
            self.close_connection = True
        except Exception as error:
            sentence = f"Something unexpected happened ({type(error).__name__}: {error}): start neuralcpm view again."
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, *as_json({"error": sentence}))

    def _refusal(self) -> HTTPStatus | None:
        host, origin = self.headers.get("Host"), self.headers.get("Origin")
        own = self.server.origin
        if host != own.removeprefix("http://") or (origin is not None and origin != own):
            return HTTPStatus.FORBIDDEN
        token = urlsplit(self.path).path.split("/")[1:2]
        if not token or not secrets.compare_digest(token[0].encode(), self.server.token.encode()):
            return HTTPStatus.NOT_FOUND
        return None

    def _body(self) -> dict[str, Any]:
        text = self.headers.get("Content-Length", "0")
        if not text.isdecimal() or int(text) > MOST_BODY or "Transfer-Encoding" in self.headers:
            self.close_connection = True
            raise UserError(f"A request of up to {MOST_BODY} bytes is taken: ask for less.")
        content = self.rfile.read(int(text))
        try:
            found = json.loads(content) if content else {}
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise UserError("The request holds no JSON object: send one.")
        return found

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)


# -- what can be asked ---------------------------------------------------------------------------------------------


def as_json(content: Any) -> Answer:
    return "application/json", json.dumps(content, allow_nan=False).encode()


def number(asked: dict[str, Any], name: str, otherwise: float | None = None) -> float:
    """A finite number of a request."""
    value = asked.get(name, otherwise)
    try:
        found = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else float("nan")
    except (ValueError, OverflowError):
        found = float("nan")
    if not abs(found) < 1e15:
        raise UserError(f"The request's {name} is {str(value)[:40]!r}, but a number is needed: send one.")
    return found


def still(server: ViewServer, asked: dict[str, Any]) -> Answer:
    """A frame that stays: measured, so that charts end with it."""
    server.tissue.look()
    return frame(server, asked)


def frame(server: ViewServer, asked: dict[str, Any]) -> Answer:
    """What is to be drawn now: the length of a JSON text, the text, and the ids of the plane as 32-bit integers."""
    tissue, axis = server.tissue, asked_axis(server, asked)
    state = tissue.state()
    plane = plane_of(state, axis, int(number(asked, "index", 0)))
    said = {
        "mcs": tissue.mcs,
        "temperature": tissue.dynamics.temperature,
        "weight": tissue.weight,
        "outside": tissue.outside(),
        "rows": len(tissue.memory.rows),
        "row": tissue.memory.rows[-1],
        "cells": int(state.cells.size),
    }
    text = json.dumps(said, allow_nan=False).encode()
    text += b" " * (-len(text) % 4)  # integers begin where they may
    return "application/octet-stream", struct.pack("<I", len(text)) + text + plane.astype("<i4").tobytes()


def asked_axis(server: ViewServer, asked: dict[str, Any]) -> int:
    """The axis that a slice lies across."""
    axis = int(number(asked, "axis", 0))
    if not 0 <= axis < server.tissue.start.lattice.dimension:
        raise UserError(f"There is no axis {axis} to cut across: choose another one.")
    return axis


def advance(server: ViewServer, asked: dict[str, Any]) -> Answer:
    server.tissue.advance(int(number(asked, "mcs", 1)))
    return frame(server, asked)


def settings(server: ViewServer, asked: dict[str, Any]) -> Answer:
    wanted = {name: number(asked, name) for name in ("temperature", "weight") if name in asked}
    server.tissue.set(**wanted)
    return as_json({"temperature": server.tissue.dynamics.temperature, "weight": server.tissue.weight})


def restart(server: ViewServer, asked: dict[str, Any]) -> Answer:
    server.tissue.restart()
    return frame(server, asked)


def plane(server: ViewServer, asked: dict[str, Any]) -> Answer:
    """Rows and columns of the picture, then the plane's site under each of its pixels (−1: none)."""
    sites = plane_map(server.tissue.start.lattice, asked_axis(server, asked))
    return "application/octet-stream", struct.pack("<II", *sites.shape) + sites.astype("<i4").tobytes()


def snapshot(server: ViewServer, asked: dict[str, Any]) -> Answer:
    from neuralcpm_bridge.pictures import frame as drawn

    tissue = server.tissue
    written = BytesIO()
    drawn(tissue.state(), f"{tissue.mcs:,} MCS", tissue.type_names, side=800).save(written, "PNG")
    return "image/png", written.getvalue()


def animation(server: ViewServer, asked: dict[str, Any]) -> Answer:
    from neuralcpm_bridge.pictures import frame as drawn
    from neuralcpm_bridge.pictures import save_animation

    tissue = server.tissue
    frames = [drawn(state, f"{mcs:,} MCS", tissue.type_names) for mcs, state in tissue.memory.states]
    with tempfile.TemporaryDirectory() as folder:
        save_animation(frames, Path(folder) / "tissue.gif")
        return "image/gif", (Path(folder) / "tissue.gif").read_bytes()


READS: dict[str, Callable[[ViewServer, dict[str, Any]], Answer]] = {
    "about": lambda server, asked: as_json(server.about),
    "plane": plane,
    "frame": still,
    "rows": lambda server, asked: as_json(server.tissue.memory.rows),
    "cell": lambda server, asked: as_json(server.tissue.cell(int(number(asked, "id")))),
    "snapshot.png": snapshot,
    "animation.gif": animation,
}
CHANGES: dict[str, Callable[[ViewServer, dict[str, Any]], Answer]] = {
    "advance": advance,
    "settings": settings,
    "restart": restart,
}
