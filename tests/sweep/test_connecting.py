"""Schedulers and workers: who is reached, who is refused, who is kept out."""

import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress

import dask
import distributed
import psutil
import pytest

from constrained_dnc.errors import RunError, SettingError
from constrained_dnc.sweep import executors
from constrained_dnc.sweep.executors import connected
from smoke_studies import is_alive


@pytest.fixture(params=[b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x01" + bytes(7)])
def stranger(request):
    """A port that answers the same to everybody, and is no scheduler."""
    clients = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            with suppress(OSError):
                while True:
                    clients.append(server.accept()[0])
                    clients[-1].sendall(request.param)

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
    for client in clients:
        client.close()


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "tls://127.0.0.1:1", "nonsense", ""])
def test_an_unreachable_scheduler_is_refused(address, monkeypatch):
    monkeypatch.setattr(executors, "SECONDS_TO_CONNECT", 0.5)
    threads = threading.active_count()
    with (
        pytest.raises(
            SettingError, match="scheduler must be the address of a running Dask scheduler"
        ),
        connected(address, None),
    ):
        pass
    assert threading.active_count() == threads  # one left behind can block the next attempt


def test_what_is_no_scheduler_is_refused(stranger, monkeypatch):
    monkeypatch.setattr(executors, "SECONDS_TO_CONNECT", 0.5)
    with pytest.raises(SettingError, match="scheduler must be"), connected(stranger, None):
        pass


def test_workers_that_cannot_start_cost_one_sentence(monkeypatch):
    def fail(**settings):
        raise RuntimeError("Nanny failed to start.\nand more")

    monkeypatch.setattr(executors.distributed, "LocalCluster", fail)
    with (
        pytest.raises(RunError, match=r"the workers cannot be started: Nanny failed to start\.$"),
        connected(None, 1),
    ):
        pass


STRANGER = """
import asyncio, os, pickle, sys, urllib.request
from distributed import Security
from distributed.comm.core import connect

if os.getuid() == 0:
    os.setuid(65534)  # another user; to a port all users are the same

async def ask(path, address, security):
    function, args = pickle.dumps(os.mkdir), pickle.dumps((path,))
    try:
        async with asyncio.timeout(2):
            comm = await connect(address, timeout=2, **security.get_connection_args("client"))
            await comm.write({"op": "run", "function": function, "args": args})
            return await comm.read()
    except (OSError, EOFError):
        return "refused"

trace, *ports = sys.argv[1:]
for port in ports:
    print(asyncio.run(ask(trace, f"tcp://127.0.0.1:{port}", Security())))
    print(asyncio.run(ask(trace, f"tls://127.0.0.1:{port}", Security.temporary())))
    for page in ("info/main/workers.html", "json/index.html", "metrics", "status", "logs"):
        try:
            print(urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=2).read())
        except OSError:
            pass
"""


def open_ports():
    """Where this process and its children listen."""
    me = psutil.Process()
    return {
        connection.laddr
        for process in (me, *me.children(recursive=True))
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }


def test_other_users_of_the_machine_are_kept_out(tmp_path):
    """Whoever may talk to Dask's ports can run code as the sweep's user."""
    tmp_path.chmod(0o777)
    trace = tmp_path / "trace"
    before = open_ports()  # of a browser that another test has left open, say
    with connected(None, 1) as client:
        ports = open_ports() - before
        assert {port.ip for port in ports} == {"127.0.0.1"}
        assert int(client.scheduler.address.rpartition(":")[2]) in {port.port for port in ports}
        command = [sys.executable, "-c", STRANGER, str(trace), *(str(p.port) for p in ports)]
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
        assert client.submit(os.getpid).result() != os.getpid()  # we are still let in
    assert answer.stdout.split() == ["refused"] * 2 * len(ports), answer.stdout
    assert not trace.exists()


def test_a_scheduler_behind_tls_is_reached_with_the_files_of_its_certificate(tmp_path):
    made = distributed.Security.temporary()
    (tmp_path / "key.pem").write_text(made.tls_client_key)
    (tmp_path / "cert.pem").write_text(made.tls_client_cert)
    settings = {"distributed.comm.tls.ca-file": str(tmp_path / "cert.pem")}
    for part in ("client", "scheduler", "worker"):
        for what in ("key", "cert"):
            settings[f"distributed.comm.tls.{part}.{what}"] = str(tmp_path / f"{what}.pem")
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=0, protocol="tls://", host="127.0.0.1", dashboard_address=":0"
        ) as cluster,
        connected(cluster.scheduler_address, None) as client,
    ):
        assert client.scheduler.address.startswith("tls://127.0.0.1:")


def test_workers_are_processes_with_one_thread_that_leave_the_cores_to_training():
    with connected(None, 1) as client:
        scheduler_seconds = client.run_on_scheduler(seconds_between)
        (worker_seconds,) = client.run(seconds_between).values()
        assert list(client.nthreads().values()) == [1]
        (worker,) = client.run(lambda: (os.getpid(), dict(os.environ), dask.config.config)).values()
    process, environment, settings = worker
    assert settings["distributed"]["worker"]["profile"]["enabled"] is False
    assert process != os.getpid()
    assert environment["NPROC"] == environment["OMP_NUM_THREADS"] == "1"
    assert environment["XLA_FLAGS"].endswith("--xla_cpu_multi_thread_eigen=false")
    assert environment["XLA_FLAGS"].startswith(os.environ["XLA_FLAGS"])
    assert not is_alive(process)
    assert scheduler_seconds == worker_seconds == {"tick": 1, "monitor": 10}


def seconds_between(dask_scheduler=None, dask_worker=None):
    """From the callbacks of Dask itself: it ignores settings whose names it does not know."""
    callbacks = (dask_scheduler or dask_worker).periodic_callbacks
    return {name: callbacks[name].callback_time / 1000 for name in ("tick", "monitor")}
