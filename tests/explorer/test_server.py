"""What the server answers, and to whom."""

import contextlib
import json
import shutil
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import urlencode

import pytest

from constrained_dnc import SettingError
from constrained_dnc.explorer import open_model, server, traces, views
from constrained_dnc.files import locked, read_json, write_json
from constrained_dnc.training.folder import LOCK, STATUS
from explored_page import served


def ask(
    address: str,
    what: str = "",
    headers: dict[str, str] | None = None,
    *,
    raw: bool = False,
    **parameters: object,
):
    """Status and text of an answer, or its bytes."""
    url = f"{address}{what}?{urlencode(parameters)}"
    request = urllib.request.Request(url, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            content = answer.read()
            return answer.status, content if raw else content.decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.parametrize(
    ("what", "host", "status"),
    [
        ("models", "localhost:1", 200),  # through a tunnel
        ("models", "127.0.0.1.evil.example", 404),
        ("nowhere", "localhost", 404),
        ("../config.json", "localhost", 404),
    ],
)
def test_only_this_machine_is_answered(address, what, host, status):
    assert ask(address, what, {"Host": host})[0] == status


@pytest.mark.parametrize(
    ("headers", "statuses"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, (200, 200)),
        ({"Sec-Fetch-Site": "none"}, (200, 200)),  # typed into the address bar
        ({"Sec-Fetch-Site": "cross-site"}, (403, 403)),
        ({"Sec-Fetch-Site": "same-site"}, (403, 403)),  # another port of this machine
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document"}, (200, 403)),  # a link
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "iframe"}, (403, 403)),
        ({"Origin": "http://evil.example"}, (403, 403)),
        ({"Origin": "null"}, (403, 403)),
        ({"Origin": "own"}, (200, 200)),
    ],
)
def test_no_other_site_is_answered(address, headers, statuses):
    own = {name: address[:-1] if text == "own" else text for name, text in headers.items()}
    assert tuple(ask(address, what, own)[0] for what in ("", "models")) == statuses


def test_no_file_is_opened_that_the_browser_names(address, runs, tmp_path):
    for name in (str(tmp_path), "/etc/passwd", runs["compr+reg"] + "/", ""):
        status, text = ask(address, "trace", model=name, problem="1 2")
        assert status == 400
        assert json.loads(text)["error"].startswith("model must be one of ")


@pytest.mark.parametrize(
    ("what", "parameters", "sentence"),
    [
        ("trace", {"problem": "1", "memory": "many"}, "memory must be "),
        ("draw", {"length": "1000000", "seed": 0}, "length must be an integer from 1 to 250"),
        ("trace", {"problem": "1 " * 251}, "the problem has length 251; the explorer draws"),
        ("data", {"problem": "1 x"}, "problem must be numerals"),
        ("data", {"problem": "1 2", "step": "99"}, "step must be an integer from 1"),
        ("data", {"problem": "1 2", "step": "x"}, "step must be an integer from 1 to 6, not 'x'"),
        ("data", {"problem": "1 2"}, "the request has no step"),
        ("draw", {"length": "4", "seed": "x"}, "seed must be an integer from 0"),
        ("draw", {"length": "4", "seed": "9" * 5000}, "seed must be an integer from 0"),
        ("draw", {"length": "\N{SUPERSCRIPT TWO}", "seed": 0}, "length must be an integer from 1"),
        (
            "draw",
            {"length": "\N{ARABIC-INDIC DIGIT THREE}", "seed": 0},
            "length must be an integer",
        ),
        ("draw", {"seed": 0}, "the request has no length"),
        ("draw", {"length": 4}, "the request has no seed"),
        ("trace", {}, "the request has no problem"),
        ("trace", {"model": "", "problem": "1"}, "model must be one of"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(address, runs, what, parameters, sentence):
    status, text = ask(address, what, **{"model": runs["compr+reg"], **parameters})
    assert status == 400
    assert sentence in json.loads(text)["error"]


def test_a_request_without_a_model_is_refused(address):
    for what in ("draw", "trace", "states", "machine", "data"):
        status, text = ask(address, what, problem="1 2", length=2, seed=0, step=1)
        assert (status, json.loads(text)) == (400, {"error": "the request has no model"})


def test_a_trace_is_computed_once(address, runs, monkeypatch):
    """Its figures, its states and its numbers come by three requests."""
    computed = []

    def counted(*arguments):
        computed.append(arguments)
        return unroll(*arguments)

    unroll = traces._unroll
    monkeypatch.setattr(traces, "_unroll", counted)
    for what, problem, memory in (
        ("trace", "2 2, 1 0", ""),
        ("states", "2 2 1 0", "4"),  # the slots of training
        ("data", "2 2 1 0", "4"),
    ):
        status, _ = ask(
            address, what, model=runs["compr+reg"], problem=problem, memory=memory, step=1, raw=True
        )
        assert status == 200
    assert len(computed) == 1


@pytest.fixture(scope="module")
def impatient_port(runs) -> Iterator[int]:
    """A server that waits a second for a request."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "REQUEST_SECONDS", 1)
        with served(server.ModelCache([runs["compr+reg"]])) as port:
            yield port


def received(connection: socket.socket) -> bytes:
    """All that the server sends until it closes the connection."""
    connection.settimeout(60)
    answer = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(1 << 16):
            answer += part
    return answer


def test_bodies_are_refused_before_they_are_read(impatient_port):
    start = f"POST /models HTTP/1.1\r\nHost: 127.0.0.1:{impatient_port}\r\n".encode()
    for header, body in (
        (b"Content-Length: 100000000\r\n\r\n", b""),  # nothing of it is waited for
        (b"Transfer-Encoding: chunked\r\n\r\n", b"10000\r\n" + bytes(1 << 16)),
    ):
        with socket.create_connection((server.HOST, impatient_port)) as connection:
            connection.sendall(start + header + body)
            answer = received(connection)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")


def test_a_request_that_is_never_completed_ends(impatient_port):
    before = time.monotonic()
    with socket.create_connection((server.HOST, impatient_port)) as connection:
        connection.sendall(b"GET /models HT")
        assert received(connection) == b""
    assert 0.5 < time.monotonic() - before < 50


def test_a_drawn_problem_is_one_of_the_task(address, runs):
    first, second = (
        ask(address, "draw", model=runs["compr+reg"], length=7, seed=seed)[1] for seed in (1, 2)
    )
    assert len(json.loads(first)["problem"].split()) == 7
    assert first != second


def test_a_run_that_cannot_be_read_is_said_so(runs, tmp_path):
    (tmp_path / "config.json").write_text("{")
    good, bad = server.ModelCache([runs["compr+reg"], str(tmp_path)]).describe()
    assert good["task"] == "copy"
    assert "config.json cannot be read" in bad["error"]


def test_a_training_that_is_killed_is_no_longer_shown_as_one(runs, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(runs["compr+reg"], folder)
    write_json(folder / STATUS, read_json(folder / STATUS) | {"state": "training"})
    models = server.ModelCache([str(folder), runs["compr+reg"]])
    with locked(folder / LOCK):
        shown = models.describe()[0]
        assert shown["is_training"]
        assert not shown["has_ended"]
    killed, ended = models.describe()
    assert killed["state"] == "interrupted after 10 of 10 iterations"
    assert not killed["has_ended"]  # the page goes on looking: it may be resumed
    assert ended["has_ended"]


def test_no_problem_is_offered_that_is_too_long_to_be_drawn(runs):
    model = open_model(runs["compr+reg"])
    training = replace(model.training, max_length=300, unseen_length=600)
    described = views.describe(replace(model, training=training))
    assert (described["first_length"], described["examples"]) == (250, [4, 250])


def test_a_taken_port(monkeypatch):
    with socket.create_server((server.HOST, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingError, match=f"port {port} cannot be used: "):
            server.listen(port)
        monkeypatch.setattr(server, "PORT", port)
        with server.listen(None) as listening:
            assert listening.getsockname()[0] == server.HOST
            assert listening.getsockname()[1] != port
