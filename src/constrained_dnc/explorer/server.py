"""The local web server: it serves the models it was started with, and no other file."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import tornado.httpserver
import tornado.web
from plotly.offline import get_plotlyjs

from constrained_dnc import zoo
from constrained_dnc.config import Inference, SelectionRule, TrainingConfig
from constrained_dnc.errors import LARGEST_SEED, RunError, SettingError, one_of
from constrained_dnc.evaluation.trained import trained_model
from constrained_dnc.explorer import views
from constrained_dnc.explorer.models import (
    MAX_DRAWN_LENGTH,
    cache_key,
    open_model,
)
from constrained_dnc.explorer.page import compose, write
from constrained_dnc.explorer.traces import MAX_DRAWN_SLOTS, Trace, read_problem, trace
from constrained_dnc.explorer.views import machine_view
from constrained_dnc.model.config import MemorySize, read_memory_size
from constrained_dnc.model.dnc import DNC
from constrained_dnc.tasks.task import AbstractTask
from constrained_dnc.training.run import Run, TrainedModel, load_run, open_run

HOST = "127.0.0.1"
PORT = 8050
REQUEST_SECONDS = 60
"""A connection without a complete request is closed after this time."""
MODELS_KEPT = 100
TRACES_KEPT = 4
"""A trace may take 100 MB; figures, states and numbers of one trace are three requests."""

Query = Mapping[str, str]


class ModelCache:
    """The models that the page may show, opened again when they change; and the latest traces."""

    def __init__(
        self,
        names: Sequence[str],
        selection: SelectionRule | None = None,
        *,
        inference: Inference = "network",
        trust_code: bool = False,
        opened: Sequence[TrainedModel] = (),
    ):
        self._opened = {model.name: model for model in opened}
        self.names = tuple(dict.fromkeys([*self._opened, *names]))
        self.selection, self.inference, self.trust_code = selection, inference, trust_code
        self._models = lru_cache(MODELS_KEPT)(self._open)
        self._traces = lru_cache(TRACES_KEPT)(trace)

    def model(self, name: str, rule: Any = None, inference: Any = None) -> TrainedModel:
        """A model as it is now, by default with the rule and inference that the page began with."""
        if name not in self.names:
            raise SettingError("model", name, one_of(self.names))
        if name in self._opened:
            return self._opened[name]
        choice = rule or self.selection, inference or self.inference
        return self._models(name, *choice, cache_key(name))

    def _open(
        self, name: str, rule: SelectionRule | None, inference: Inference, version: Any
    ) -> TrainedModel:
        return open_model(name, rule, inference=inference, trust_code=self.trust_code)

    def trace(self, query: Query) -> Trace:
        """The trace of a model on a problem, cached."""
        model = self.model(required(query, "model"), query.get("rule"), query.get("inference"))
        memory = query.get("memory")
        size = read_memory_size(memory, MAX_DRAWN_SLOTS) if memory else model.slots
        text = model.task.format_problem(model.task.parse(required(query, "problem")))
        return self._traces(model, text, size)

    def describe(self) -> list[dict[str, Any]]:
        """Metadata of all models; an error for one that cannot be opened."""
        described = []
        for name in self.names:
            try:
                described.append(views.describe(self.model(name)))
            except (SettingError, RunError) as error:
                described.append({"name": name, "error": str(error)})
        return described

    def draw(self, query: Query) -> dict[str, str]:
        """A random problem of the requested length."""
        task = self.model(required(query, "model")).task
        length = integer(query, "length", 1, MAX_DRAWN_LENGTH)
        problem = task.sample(integer(query, "seed", 0, LARGEST_SEED), 1, length).problems[0]
        return {"problem": task.format_problem(problem)}


def required(query: Query, name: str) -> str:
    """A parameter that a request must have."""
    if name not in query:
        raise SettingError(f"the request has no {name}")
    return query[name]


def integer(query: Query, name: str, least: int, most: int) -> int:
    """An integer that a request must have."""
    text = required(query, name)
    is_number = text.isascii() and text.isdigit() and len(text) < 20
    if not is_number or not least <= int(text) <= most:
        raise SettingError(name, text, f"an integer from {least} to {most}")
    return int(text)


def data_file(models: ModelCache, query: Query) -> bytes:
    """The numbers of a trace, with the link at one step."""
    shown = models.trace(query)
    return views.data_file(shown, integer(query, "step", 1, len(shown.outputs)))


JSON, HTML, SCRIPT = "application/json", "text/html", "text/javascript"
ROUTES: dict[str, tuple[str, Callable[[ModelCache, Query], Any]]] = {
    "/": (HTML, lambda models, query: compose(models.describe())),
    "/plotly.js": (SCRIPT, lambda models, query: get_plotlyjs()),
    "/models": (JSON, lambda models, query: models.describe()),
    "/draw": (JSON, ModelCache.draw),
    "/trace": (JSON, lambda models, query: views.view(models.trace(query))),
    "/states": (JSON, lambda models, query: views.states(models.trace(query))),
    "/machine": (JSON, lambda models, query: machine_view(models.trace(query))),
    "/data": ("application/octet-stream", data_file),
}


def respond(models: ModelCache, path: str, query: Query) -> tuple[int, str, str | bytes]:
    """Status, content type and body; an error is one sentence, which the page shows."""
    status, (kind, work) = 200, ROUTES[path]
    try:
        answer = work(models, query)
    except (SettingError, RunError) as error:
        status, kind, answer = 400, JSON, {"error": str(error)}
    return status, kind, views.dumps(answer) if kind == JSON else answer


class Handler(tornado.web.RequestHandler):
    """Responds in a thread."""

    def initialize(self, models: ModelCache, threads: ThreadPoolExecutor) -> None:
        self.models, self.threads = models, threads

    def prepare(self) -> None:
        """Refuse what the page of another site requests; a link to this page may be anywhere."""
        headers, request = self.request.headers, self.request
        is_link = request.path == "/" and headers.get("Sec-Fetch-Dest") == "document"
        is_ours = headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin")
        own = f"{request.protocol}://{request.host}"
        if not (is_ours or is_link) or headers.get("Origin", own) != own:
            self.set_status(403)
            self.finish({"error": "another site may not use the explorer"})

    async def get(self) -> None:
        query = {name: self.get_query_argument(name) for name in self.request.query_arguments}
        work = self.threads.submit(respond, self.models, self.request.path, query)
        status, kind, answer = await asyncio.wrap_future(work)
        self.set_status(status)
        self.set_header("Content-Type", f"{kind}; charset=utf-8")
        self.set_header("Cache-Control", "max-age=3600" if kind == SCRIPT else "no-store")
        self.finish(answer)


def application(models: ModelCache) -> tornado.web.Application:
    """The routes of the page, for the host names of this machine only."""
    parts = {"models": models, "threads": ThreadPoolExecutor(2)}
    app = tornado.web.Application(compress_response=True, log_function=lambda handler: None)
    app.add_handlers(r"(127\.0\.0\.1|localhost)", [(path, Handler, parts) for path in ROUTES])
    return app


def listen(port: int | None) -> socket.socket:
    """Listen on a port of this machine, by default 8050 or any free one."""
    if port is not None and not 0 <= port <= 65535:
        raise SettingError("port", port, "an integer from 0 (any) to 65535")
    try:
        listening = socket.create_server((HOST, PORT if port is None else port))
    except OSError as error:
        if port is None:
            return listen(0)
        raise SettingError(f"port {port} cannot be used: {error}") from error
    listening.setblocking(False)
    return listening


def address(listening: socket.socket, model: str, **shown: object) -> str:
    """The address of the page; its fragment holds the model and what else is `shown`, if any."""
    given = {name: value for name, value in shown.items() if value}
    fragment = "#" + urlencode({"model": model, **given}) if given else ""
    return f"http://{HOST}:{listening.getsockname()[1]}/{fragment}"


async def serve(models: ModelCache, listening: socket.socket) -> None:
    """Serve the page until the task is cancelled."""
    server = tornado.httpserver.HTTPServer(
        application(models),
        max_body_size=0,  # the page sends no bodies
        idle_connection_timeout=REQUEST_SECONDS,
        body_timeout=REQUEST_SECONDS,
    )
    server.add_sockets([listening])
    try:
        await asyncio.Event().wait()
    finally:
        server.stop()


def explore(
    model: DNC | Run | str | Path | Sequence[str],
    task: AbstractTask | str | None = None,
    problem: str | None = None,
    *,
    memory: MemorySize | None = None,
    selection: SelectionRule | None = None,
    inference: Inference = "network",
    html: str | Path | None = None,
    training: TrainingConfig | None = None,
    port: int | None = None,
    trust_code: bool = False,
    announce: Callable[[str], None] | None = None,
) -> None:
    """Show what the memory of a model does, on a local page or in one HTML file.

    The address is printed, and the page served until Ctrl-C; in a notebook it is served in the
    background until the kernel ends.

    Args:
        model: A run, its folder or the name of a pretrained model, or a model with its `task`; or a
            list of folders and names, the first of which is shown, beside the second if there are
            two of one task.
        task: The task of a model that is not a run, or its name.
        problem: The problem that is shown first, as text or plain values; by default a random one.
        memory: Slots of the memory, or "growing"; by default as in training.
        selection: The rule that selected the parameters of a run, by default `score`.
        inference: "digital" for hard writes and snapped states, see `calibrate`.
        html: A file to write instead of serving the page.
        training: For a model that is not a run, the settings whose lengths the page marks.
        port: The port of the page, by default 8050 or any free one.
        trust_code: Whether user-defined code that the runs name may be executed although this user
            has not trained with it as it is now.
        announce: Called with the address of the page; by default it is printed.
    """
    opened, names = [], []
    if isinstance(model, DNC):
        shown = trained_model(model, task, inference=inference)
        opened = [dataclasses.replace(shown, training=training or shown.training)]
    elif task is not None:
        raise SettingError("a run knows its task: leave the argument out")
    elif isinstance(model, Run):
        names, trust_code = [str(model.folder)], True
    else:
        names = [str(name) for name in ([model] if isinstance(model, str | Path) else model)]
    models = ModelCache(names, selection, inference=inference, trust_code=trust_code, opened=opened)
    first = models.names[0]
    task = opened[0].task if opened else load_run(first, trust_code=trust_code).task
    if problem is not None:
        problem = task.format_problem(read_problem(task, problem))
    if html is not None:
        if len(models.names) > 2:
            raise SettingError(f"html shows one or two models, not {len(models.names)}")
        write([models.model(name) for name in models.names], problem, memory, Path(html))
        return
    listening = listen(port)
    second = None if opened else _second(models.names)
    url = address(listening, first, problem=problem, compare=second, memory=memory)
    serving = serve(models, listening)
    announce = announce or partial(print, flush=True)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        announce(f"{url}  (Ctrl-C ends it)")
        asyncio.run(serving)
    else:
        announce(url)
        threading.Thread(target=asyncio.run, args=[serving], daemon=True).start()


def _second(names: Sequence[str]) -> str | None:
    """The model to compare the first with: the second of two, or its pretrained baseline."""
    if len(names) != 2:
        baseline = f"{names[0].partition('/')[0]}/stateful-baseline"
        is_there = zoo.is_name(names[0]) and names[0] != baseline and baseline in names
        return baseline if is_there else None
    first, second = (open_run(name).config.task for name in names)
    return names[1] if first == second else None
