"""The page on this machine: models are those it was started with, and no file is opened by name."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import tornado.httpserver
import tornado.web
from plotly.offline import get_plotlyjs

from constrained_dnc.errors import RunError, SettingError, one_of
from constrained_dnc.explorer import views
from constrained_dnc.explorer.attempts import MOST_DRAWN_SLOTS, Attempt, attempt
from constrained_dnc.explorer.models import LONGEST_DRAWN, Model, open_model, version_of
from constrained_dnc.explorer.page import compose
from constrained_dnc.model.config import MemorySize, read_memory_size

HOST = "127.0.0.1"
PORT = 8050
PORTS_TRIED = 20
"""Ports tried from the first one on when nobody asked for a certain one."""
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)

LONGEST_ADDRESS = 1 << 20
"""In bytes; the page sends no problem that could need more."""
SENTENCES = {
    403: "Only the explorer's own page is answered.",
    404: "There is nothing at this address.",
    405: "Only GET is answered.",
    500: "The explorer failed at this; its terminal says where.",
}


class Shelf:
    """The models that the page may show; those of runs are opened again when they change."""

    def __init__(self, names: Sequence[str], trust_code: bool = False):
        self.names = tuple(dict.fromkeys(names))
        self.trust_code = trust_code
        self._opened: dict[str, tuple[Any, Model]] = {}
        self._lock = threading.Lock()

    def model(self, name: str) -> Model:
        """A model of the shelf as it is now."""
        if name not in self.names:
            raise SettingError("model", name, one_of(self.names))
        version = version_of(name)
        with self._lock:
            kept = self._opened.get(name)
        if kept is not None and kept[0] == version:
            return kept[1]
        model = open_model(name, trust_code=self.trust_code)
        with self._lock:
            self._opened[name] = version, model
        return model

    def describe(self) -> list[dict[str, Any]]:
        """All models in words; one that cannot be opened says why."""
        described = []
        for name in self.names:
            try:
                described.append(views.describe(self.model(name)))
            except (SettingError, RunError) as error:
                described.append({"name": name, "error": str(error)})
        return described


class Refused(tornado.web.HTTPError):
    """A question that gets a sentence instead of an answer."""

    def __init__(self, sentence: str):
        super().__init__(400)
        self.sentence = sentence


class Handler(tornado.web.RequestHandler):
    """Answers in a thread, says in one sentence what is wrong, and only to this page."""

    def initialize(self, shelf: Shelf, threads: ThreadPoolExecutor) -> None:
        self.shelf, self.threads = shelf, threads

    def prepare(self) -> None:
        if self.request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            raise tornado.web.HTTPError(403)

    def set_default_headers(self) -> None:
        self.set_header("Content-Security-Policy", POLICY)
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "no-referrer")
        self.set_header("Cache-Control", "no-store")

    async def found(self, work: Callable[[], Any]) -> Any:
        """What `work` finds, in a thread."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self.threads, work)
        except (SettingError, RunError) as error:
            raise Refused(str(error)) from error

    async def reply(self, work: Callable[[], Any]) -> None:
        """Send what `work` finds as JSON."""
        found = await self.found(work)
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.finish(views.dumps(found))

    def write_error(self, status_code: int, **about: Any) -> None:
        """Whatever went wrong, the page gets a sentence to show."""
        _, error, _ = about.get("exc_info", (None, None, None))
        default = SENTENCES.get(status_code, f"The request was refused: {self._reason}.")
        sentence = error.sentence if isinstance(error, Refused) else default
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.finish(views.dumps({"error": sentence}))

    def log_exception(self, kind: Any, error: Any, trace: Any) -> None:
        """Only what is our fault belongs on the terminal."""
        if not isinstance(error, tornado.web.HTTPError):
            super().log_exception(kind, error, trace)

    def asked(self) -> Attempt:
        """The attempt that the address names."""
        model = self.shelf.model(self.get_query_argument("model", ""))
        memory = self.get_query_argument("memory", "")
        size: MemorySize | None = None
        if memory:
            size = read_memory_size(memory, MOST_DRAWN_SLOTS)
        return attempt(model, self.get_query_argument("problem", "", strip=False), size)


class Page(Handler):
    async def get(self) -> None:
        self.finish(compose(await self.found(self.shelf.describe)))


class Plotly(Handler):
    def get(self) -> None:
        self.set_header("Content-Type", "text/javascript; charset=utf-8")
        self.set_header("Cache-Control", "max-age=3600")
        self.finish(get_plotlyjs())


class Models(Handler):
    async def get(self) -> None:
        await self.reply(self.shelf.describe)


class Draw(Handler):
    """A random problem of a length."""

    async def get(self) -> None:
        await self.reply(self._draw)

    def _draw(self) -> dict[str, str]:
        task = self.shelf.model(self.get_query_argument("model", "")).task
        length = _integer("length", self.get_query_argument("length", ""))
        if not 1 <= length <= LONGEST_DRAWN:
            raise SettingError("length", length, f"an integer from 1 to {LONGEST_DRAWN}")
        seed = _integer("seed", self.get_query_argument("seed", "0"))
        return {"problem": task.format_problem(task.sample(seed, 1, length).problems[0])}


class Attempts(Handler):
    async def get(self) -> None:
        await self.reply(lambda: views.view(self.asked()))


class States(Handler):
    async def get(self) -> None:
        await self.reply(lambda: views.states(self.asked()))


class Data(Handler):
    async def get(self) -> None:
        file = await self.found(
            lambda: views.data_file(
                self.asked(), _integer("step", self.get_query_argument("step", "1"))
            )
        )
        self.set_header("Content-Type", "application/octet-stream")
        self.set_header("Content-Disposition", "attachment")
        self.finish(file)


class Nothing(Handler):
    """Any other address, and any other name of this machine."""

    def prepare(self) -> None:
        raise tornado.web.HTTPError(404)


ROUTES = {
    "/": Page,
    "/plotly.js": Plotly,
    "/models": Models,
    "/draw": Draw,
    "/attempt": Attempts,
    "/states": States,
    "/data": Data,
}


def application(shelf: Shelf) -> tornado.web.Application:
    """The page's routes, for requests to this machine by its own name only."""
    parts = {"shelf": shelf, "threads": ThreadPoolExecutor(2)}
    app = tornado.web.Application(
        compress_response=True,
        log_function=lambda handler: None,
        default_handler_class=Nothing,
        default_handler_args=parts,
    )
    app.add_handlers(
        r"(127\.0\.0\.1|localhost)", [(path, kind, parts) for path, kind in ROUTES.items()]
    )
    return app


def listen(port: int | None) -> socket.socket:
    """A free port of this machine: the one asked for, or the first free one."""
    if port is not None and not 0 <= port <= 65535:
        raise SettingError("port", port, "an integer from 0 (any) to 65535")
    for candidate in [port] if port is not None else range(PORT, PORT + PORTS_TRIED):
        try:
            listening = socket.create_server((HOST, candidate))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
        else:
            listening.setblocking(False)
            return listening
    if port is not None:
        raise SettingError("port", port, "a port that is free and open to you")
    raise RunError(
        f"none of the ports {PORT} to {PORT + PORTS_TRIED - 1} is free; name one: --port"
    )


async def serve(shelf: Shelf, listening: socket.socket) -> None:
    """Show the page until the task is cancelled."""
    server = tornado.httpserver.HTTPServer(application(shelf), max_header_size=LONGEST_ADDRESS)
    server.add_sockets([listening])
    try:
        await asyncio.Event().wait()
    finally:
        server.stop()


def _integer(setting: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise SettingError(setting, text, "an integer")
    return int(text)
