"""The local web server: it serves the models it was started with, and no other file."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import tornado.httpserver
import tornado.web
from plotly.offline import get_plotlyjs

from constrained_dnc.choices import Inference, SelectionRule
from constrained_dnc.errors import RunError, SettingError, one_of
from constrained_dnc.explorer import views
from constrained_dnc.explorer.models import MAX_DRAWN_LENGTH, Model, cache_key, open_model
from constrained_dnc.explorer.page import compose
from constrained_dnc.explorer.traces import MAX_DRAWN_SLOTS, Trace, trace
from constrained_dnc.model.config import MemorySize, read_memory_size

HOST = "127.0.0.1"
PORT = 8050
PORTS_TRIED = 20
"""How many ports are tried, from the first one on, when none is named."""
POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)

MAX_HEADER_BYTES = 1 << 20
"""Of a request; no problem that the page sends needs more."""
MAX_BODY_BYTES = 0
"""The page sends no bodies."""
REQUEST_SECONDS = 60
"""After which a connection without a complete request is closed."""
TRACES_KEPT = 4
"""A trace may take 100 MB; figures, states and numbers of one trace are three requests."""
SENTENCES = {
    403: "Only the explorer's own page is answered.",
    404: "There is nothing at this address.",
    405: "Only GET is answered.",
    500: "The explorer failed at this; its terminal says where.",
}


class ModelCache:
    """The models that the page may show, opened again when they change; and the latest traces."""

    def __init__(
        self,
        names: Sequence[str],
        selection: SelectionRule | None = None,
        *,
        inference: Inference = "network",
        trust_code: bool = False,
    ):
        self.names = tuple(dict.fromkeys(names))
        self.options: dict[str, Any] = {
            "selection": selection,
            "inference": inference,
            "trust_code": trust_code,
        }
        self._models: dict[str, tuple[Any, Model]] = {}
        self._traces = lru_cache(TRACES_KEPT)(trace)

    def model(self, name: str) -> Model:
        """A model as it is now."""
        if name not in self.names:
            raise SettingError("model", name, one_of(self.names))
        key = cache_key(name)
        if name not in self._models or self._models[name][0] != key:
            model = open_model(name, **self.options)
            self._models[name] = key, model
        return self._models[name][1]

    def trace(self, name: str, text: str, memory_size: MemorySize | None) -> Trace:
        """The trace of a model on a problem, cached."""
        model = self.model(name)
        text = model.task.format_problem(model.task.parse(text))  # one cache key for all spellings
        return self._traces(model, text, memory_size or model.memory_size)

    def describe(self) -> list[dict[str, Any]]:
        """Metadata of all models; an error for one that cannot be opened."""
        described = []
        for name in self.names:
            try:
                described.append(views.describe(self.model(name)))
            except (SettingError, RunError) as error:
                described.append({"name": name, "error": str(error)})
        return described


class Refused(tornado.web.HTTPError):
    """A request that is refused with one sentence."""

    def __init__(self, sentence: str):
        super().__init__(400)
        self.sentence = sentence


class Handler(tornado.web.RequestHandler):
    """Answers requests of the page in a thread; errors are one sentence each."""

    def initialize(self, models: ModelCache, threads: ThreadPoolExecutor) -> None:
        self.models, self.threads = models, threads

    def prepare(self) -> None:
        if self.request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            raise tornado.web.HTTPError(403)

    def set_default_headers(self) -> None:
        self.set_header("Content-Security-Policy", POLICY)
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "no-referrer")
        self.set_header("Cache-Control", "no-store")

    async def computed(self, work: Callable[[], Any]) -> Any:
        """The result of `work`, which runs in a thread."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self.threads, work)
        except (SettingError, RunError) as error:
            raise Refused(str(error)) from error

    async def reply(self, work: Callable[[], Any]) -> None:
        """Send the result of `work` as JSON."""
        result = await self.computed(work)
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.finish(views.dumps(result))

    def write_error(self, status_code: int, **context: Any) -> None:
        """Send the sentence that the page shows."""
        _, error, _ = context.get("exc_info", (None, None, None))
        default = SENTENCES.get(status_code, f"The request was refused: {self._reason}.")
        sentence = error.sentence if isinstance(error, Refused) else default
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.finish(views.dumps({"error": sentence}))

    def log_exception(self, kind: Any, error: Any, trace: Any) -> None:
        """Print a traceback for errors in our code only."""
        if not isinstance(error, tornado.web.HTTPError):
            super().log_exception(kind, error, trace)

    def requested_trace(self) -> Trace:
        """The trace that the address names."""
        memory = self.get_query_argument("memory", "")
        size: MemorySize | None = read_memory_size(memory, MAX_DRAWN_SLOTS) if memory else None
        problem = self.get_query_argument("problem", "", strip=False)
        return self.models.trace(self.get_query_argument("model", ""), problem, size)


class Page(Handler):
    async def get(self) -> None:
        self.finish(compose(await self.computed(self.models.describe)))


class Plotly(Handler):
    def get(self) -> None:
        self.set_header("Content-Type", "text/javascript; charset=utf-8")
        self.set_header("Cache-Control", "max-age=3600")
        self.finish(get_plotlyjs())


class Models(Handler):
    async def get(self) -> None:
        await self.reply(self.models.describe)


class Draw(Handler):
    """A random problem of a length."""

    async def get(self) -> None:
        await self.reply(self._draw)

    def _draw(self) -> dict[str, str]:
        task = self.models.model(self.get_query_argument("model", "")).task
        length = _integer("length", self.get_query_argument("length", ""))
        if not 1 <= length <= MAX_DRAWN_LENGTH:
            raise SettingError("length", length, f"an integer from 1 to {MAX_DRAWN_LENGTH}")
        seed = _integer("seed", self.get_query_argument("seed", "0"))
        return {"problem": task.format_problem(task.sample(seed, 1, length).problems[0])}


class Traces(Handler):
    async def get(self) -> None:
        await self.reply(lambda: views.view(self.requested_trace()))


class States(Handler):
    async def get(self) -> None:
        await self.reply(lambda: views.states(self.requested_trace()))


class Data(Handler):
    async def get(self) -> None:
        step = self.get_query_argument("step", "1")
        file = await self.computed(
            lambda: views.data_file(self.requested_trace(), _integer("step", step))
        )
        self.set_header("Content-Type", "application/octet-stream")
        self.set_header("Content-Disposition", "attachment")
        self.finish(file)


class NotFound(Handler):
    """Any other path or host name."""

    def prepare(self) -> None:
        raise tornado.web.HTTPError(404)


ROUTES = {
    "/": Page,
    "/plotly.js": Plotly,
    "/models": Models,
    "/draw": Draw,
    "/trace": Traces,
    "/states": States,
    "/data": Data,
}


def application(models: ModelCache) -> tornado.web.Application:
    """The routes of the page, for the host names of this machine only."""
    parts = {"models": models, "threads": ThreadPoolExecutor(2)}
    app = tornado.web.Application(
        compress_response=True,
        log_function=lambda handler: None,
        default_handler_class=NotFound,
        default_handler_args=parts,
    )
    app.add_handlers(
        r"(127\.0\.0\.1|localhost)", [(path, kind, parts) for path, kind in ROUTES.items()]
    )
    return app


def listen(port: int | None) -> socket.socket:
    """Listen on a port of this machine, by default the first free one."""
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
        raise SettingError(f"port {port} is taken or not open to you")
    raise RunError(
        f"none of the ports {PORT} to {PORT + PORTS_TRIED - 1} is free; name one: --port"
    )


async def serve(models: ModelCache, listening: socket.socket) -> None:
    """Serve the page until the task is cancelled."""
    server = tornado.httpserver.HTTPServer(
        application(models),
        max_header_size=MAX_HEADER_BYTES,
        max_buffer_size=2 * MAX_HEADER_BYTES,
        max_body_size=MAX_BODY_BYTES,
        idle_connection_timeout=REQUEST_SECONDS,
        body_timeout=REQUEST_SECONDS,
    )
    server.add_sockets([listening])
    try:
        await asyncio.Event().wait()
    finally:
        server.stop()


def _integer(setting: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise SettingError(setting, text, "an integer")
    return int(text)
