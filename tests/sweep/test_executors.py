"""Runs side by side, and what happens when processes die."""

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import dask
import distributed
import numpy as np
import psutil
import pytest

from constrained_dnc.errors import BadSetting, RunProblem
from constrained_dnc.files import read_json
from constrained_dnc.sweep import executors
from constrained_dnc.sweep.executors import connected, execute
from constrained_dnc.sweep.plan import make_request, open_study
from constrained_dnc.sweep.trial import Outcome
from smoke_studies import (
    finish,
    is_training,
    iterations_done,
    owners,
    results,
    start,
    wait_for,
)


class Done:
    """A future that has come."""

    def __init__(self, outcome):
        self.outcome = outcome

    def done(self) -> bool:
        return True

    def result(self) -> Outcome:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


class Script:
    """A client whose runs end as it is written; the last line of a run is repeated."""

    status = "running"

    def __init__(self, lines):
        self.lines = lines
        self.submitted = []

    def submit(self, function, study, config_text, sources, key, priority):
        assert key not in self.submitted
        self.submitted.append(key)
        lines = self.lines[key.split("-")[1]]
        return Done(lines.pop(0) if len(lines) > 1 else lines[0])


class Diary:
    def __init__(self):
        self.ends, self.failures, self.looks = [], [], []

    def ended(self, config, state):
        self.ends.append((config, state))

    def failed(self, config, reasons):
        self.failures.append((config, list(reasons)))

    def look(self, running):
        self.looks.append(running)


@pytest.fixture
def plan(tmp_path, monkeypatch):
    monkeypatch.setattr(executors, "SECONDS_BETWEEN_LOOKS", 0)
    return open_study(tmp_path, make_request("smoke"))


def test_a_run_that_fails_three_times_does_not_stop_the_others(plan):
    bad, good = plan.configs
    failed = Outcome("failed", "no", "Traceback")
    client = Script({bad.run_id: [failed], good.run_id: [Outcome("finished")]})
    diary = Diary()
    execute(plan, client, diary)
    assert diary.ends == [(good, "finished")]
    assert diary.failures == [(bad, ["no"] * count) for count in (1, 2, 3)]
    assert len(client.submitted) == 4
    assert [failure["run_id"] for failure in plan.write_failures()] == [bad.run_id]


def test_attempts_of_earlier_sweeps_count(plan):
    bad, good = plan.configs
    for _ in range(2):
        plan.add_attempt(bad, "earlier")
    lines = {bad.run_id: [Outcome("failed", "now")], good.run_id: [Outcome("diverged")]}
    client, diary = Script(lines), Diary()
    execute(plan, client, diary)
    assert diary.failures == [(bad, ["earlier", "earlier", "now"])]
    assert diary.ends == [(good, "diverged")]


def test_workers_that_die_time_and_again_are_a_failed_attempt(plan):
    bad, good = plan.configs
    lines = [ValueError("KilledWorker\nand more"), Outcome("finished")]
    diary = Diary()
    execute(plan, Script({bad.run_id: lines, good.run_id: [Outcome("finished")]}), diary)
    assert diary.failures == [(bad, ["ValueError: KilledWorker"])]
    assert len(diary.ends) == 2
    assert plan.write_failures() == []


def test_the_death_of_a_worker_is_not_blamed_on_runs_that_waited_there(plan, monkeypatch):
    bad, good = plan.configs
    death = distributed.KilledWorker("trial", SimpleNamespace(address="tls://here:1"), 3)
    client = Script({bad.run_id: [death], good.run_id: [death] * 3 + [Outcome("finished")]})
    submit, numbers = client.submit, iter(range(100))

    def submit_and_begin(*arguments, **options):
        if bad.run_id in options["key"]:  # another process works on it every time
            plan.lock(bad).parent.mkdir(exist_ok=True)
            deaths.append(lambda: plan.lock(bad).write_text(f"process {next(numbers)} on here"))
        return submit(*arguments, **options)

    deaths, diary = [], Diary()
    diary.look = lambda running: deaths.pop()() if deaths else None
    monkeypatch.setattr(client, "submit", submit_and_begin)
    execute(plan, client, diary)
    assert [config for config, _ in diary.failures] == [bad] * 3
    assert diary.ends == [(good, "finished")]
    assert plan.attempts(good) == []


@pytest.mark.parametrize("error", [CancelledError(), OSError("closed")])
def test_a_lost_scheduler_is_not_the_fault_of_a_run(plan, error):
    client = Script({config.run_id: [error] for config in plan.configs})
    client.status = "connecting"
    with pytest.raises(RunProblem, match="the Dask scheduler is gone; the same command resumes"):
        execute(plan, client, Diary())
    assert [plan.attempts(config) for config in plan.configs] == [[], []]


def test_an_error_of_our_own_is_not_blamed_on_the_scheduler(plan):
    client = Script({config.run_id: [Outcome("finished")] for config in plan.configs})
    diary = Diary()
    diary.look = lambda running: (_ for _ in ()).throw(BrokenPipeError)
    with pytest.raises(BrokenPipeError):
        execute(plan, client, diary)


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


@pytest.mark.parametrize(
    "address",
    [
        "tcp://127.0.0.1:1",
        "nonsense",
        "http://127.0.0.1:1",
        "tls://127.0.0.1:1",
        "",
        "tcp://[",
        "?",
    ],
)
def test_an_unreachable_scheduler_is_refused(address, monkeypatch):
    monkeypatch.setattr(executors, "SECONDS_TO_CONNECT", 0.5)
    threads = threading.active_count()
    with (
        pytest.raises(BadSetting, match=r"scheduler is .* the address of a running Dask scheduler"),
        connected(address, None),
    ):
        pass
    assert threading.active_count() == threads  # one left behind can block the next attempt


def test_what_is_no_scheduler_is_refused(stranger, monkeypatch):
    monkeypatch.setattr(executors, "SECONDS_TO_CONNECT", 0.5)
    with pytest.raises(BadSetting, match="scheduler is"), connected(stranger, None):
        pass


def test_workers_that_cannot_start_cost_one_sentence(monkeypatch):
    def fail(**settings):
        raise RuntimeError("Nanny failed to start.\nand more")

    monkeypatch.setattr(executors.distributed, "LocalCluster", fail)
    with (
        pytest.raises(RunProblem, match=r"the workers cannot be started: Nanny failed to start\.$"),
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


def test_workers_are_processes_with_one_thread():
    with connected(None, 1) as client:
        assert list(client.nthreads().values()) == [1]
        (worker,) = client.run(lambda: (os.getpid(), dict(os.environ), dask.config.config)).values()
    process, environment, settings = worker
    assert settings["distributed"]["worker"]["profile"]["enabled"] is False
    assert process != os.getpid()
    assert environment["NPROC"] == environment["OMP_NUM_THREADS"] == "1"
    assert environment["XLA_FLAGS"].endswith("--xla_cpu_multi_thread_eigen=false")
    assert environment["XLA_FLAGS"].startswith(os.environ["XLA_FLAGS"])
    assert not is_alive(process)


def is_alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


# What follows takes minutes: whole studies of real processes.


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    study = tmp_path_factory.mktemp("undisturbed") / "study"
    code, output, errors = finish(start(study))
    assert code == 0, output + errors
    return results(study)


def assert_finishes(study: Path, undisturbed, *options: str) -> str:
    code, output, errors = finish(start(study, *options))
    assert code == 0, output + errors
    np.testing.assert_equal(results(study), undisturbed)
    return errors


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["group", "parent"])
def test_a_killed_sweep_resumes_to_equal_results(tmp_path, undisturbed, victim):
    """The parent alone leaves its workers behind; they must not be in the way."""
    study, moments = tmp_path / "study", random.Random(victim)
    for _ in range(3):
        process = start(study)
        if moments.random() < 0.5:
            wait_for(lambda: any(study.glob("runs/*/status.json")))
        time.sleep(moments.uniform(0, 15))
        kill = os.killpg if victim == "group" else os.kill
        kill(process.pid, signal.SIGKILL)
        process.communicate()
    left_behind = owners(study)
    assert_finishes(study, undisturbed)
    assert not any(map(is_alive, left_behind | owners(study)))


@pytest.mark.slow
def test_a_study_that_grows_through_kills_ends_as_if_asked_for_all_at_once(tmp_path):
    grown, straight, moments = tmp_path / "grown", tmp_path / "straight", random.Random(0)
    process = start(grown)
    wait_for(lambda: any(grown.glob("results/*-60.parquet")))
    os.killpg(process.pid, signal.SIGKILL)  # one run is finished, the other perhaps not
    process.communicate()
    for _ in range(2):
        before = iterations_done(grown)
        process = start(grown, "--iterations", "120")
        wait_for(lambda: iterations_done(grown) > before or process.poll() is not None)  # noqa: B023
        time.sleep(moments.uniform(0, 1))
        with suppress(ProcessLookupError):  # all may have been trained before the last kill
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    for study in (grown, straight):
        code, output, errors = finish(start(study, "--iterations", "120"))
        assert code == 0, output + errors
    ours, theirs = results(grown), results(straight)
    np.testing.assert_equal({name: ours[name] for name in theirs}, theirs)
    assert all(name.endswith("-60.parquet") for name in ours.keys() - theirs.keys())
    assert ours.keys() - theirs.keys()


@pytest.mark.slow
def test_a_killed_worker_is_replaced(tmp_path, undisturbed):
    study = tmp_path / "study"
    process = start(study)
    wait_for(lambda: is_training(study))
    victim = min(owners(study))
    os.kill(victim, signal.SIGKILL)
    code, output, errors = finish(process)
    assert code == 0, output + errors
    assert victim not in owners(study)
    assert (study / "failures.json").read_text() == "[]"
    np.testing.assert_equal(results(study), undisturbed)


class Cluster:
    """A scheduler and two workers, started as on a cluster."""

    def __init__(self, folder: Path, has_workers: bool = True):
        folder.mkdir()
        file = folder / "scheduler.json"
        common = ["--scheduler-file", str(file), "--no-dashboard"]
        self.log = (folder / "log").open("w")
        self.scheduler = self.run("scheduler", *common, "--host", "127.0.0.1", "--port", "0")
        wait_for(lambda: file.exists() and file.read_text().endswith("}"))
        self.address = read_json(file)["address"]
        options = ["--nworkers", "2", "--nthreads", "1", "--local-directory", str(folder)]
        self.start_workers = lambda: self.run("worker", *common, *options)
        self.workers = self.start_workers() if has_workers else None

    def run(self, part: str, *options: str) -> subprocess.Popen:
        command = [sys.executable, "-m", "dask", part, *options]
        return subprocess.Popen(
            command, stdout=self.log, stderr=self.log, start_new_session=True, cwd="/"
        )

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for process in filter(None, (self.workers, self.scheduler)):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.log.close()


@pytest.mark.slow
def test_a_killed_scheduler_costs_one_sentence_and_nothing_else(tmp_path, undisturbed):
    study = tmp_path / "study"
    with Cluster(tmp_path / "first") as cluster:
        process = start(study, "--scheduler", cluster.address)
        wait_for(lambda: is_training(study))
        cluster.scheduler.kill()
        code, _, errors = finish(process)
        assert code == 1
        assert errors == "cdnc: the Dask scheduler is gone; the same command resumes from here\n"
        with Cluster(tmp_path / "second") as another:  # the first one's workers still live
            assert_finishes(study, undisturbed, "--scheduler", another.address)


TASK = """
from constrained_dnc import AbstractNumeralTask


class Reverse(AbstractNumeralTask):
    name = "backwards"
    summary = "the numerals backwards"

    def rule(self, numerals):
        return numerals[:, ::-1]
"""
CONTROLLER = """
import equinox as eqx
import jax.numpy as jnp
from constrained_dnc import AbstractController, ControllerStep


class Gru(AbstractController):
    cell: eqx.nn.GRUCell
    hidden_size: int = eqx.field(static=True)

    def __init__(self, input_size, hidden_size, *, key):
        self.cell = eqx.nn.GRUCell(input_size, hidden_size, key=key)
        self.hidden_size = hidden_size

    def initial_state(self):
        return jnp.zeros(self.hidden_size)

    def __call__(self, inputs, state):
        hidden = self.cell(inputs, state)
        return ControllerStep(hidden=hidden, state=hidden, uncompressed=hidden)

    def cell_state(self, state):
        return state
"""


@pytest.mark.slow
def test_code_of_ones_own_is_carried_to_workers_that_lack_it(tmp_path, monkeypatch):
    """Its files are gone before the first worker comes."""
    code, elsewhere, study = (tmp_path / name for name in ("code", "elsewhere", "study"))
    code.mkdir()
    elsewhere.mkdir()
    (code / "t.py").write_text(TASK)
    (code / "gru.py").write_text(CONTROLLER)
    monkeypatch.chdir(elsewhere)
    with Cluster(tmp_path / "cluster", has_workers=False) as cluster:
        own = ["--tasks", "../code/t.py:Reverse", "--approaches", "../code/gru.py:Gru"]
        process = start(study, "--scheduler", cluster.address, *own)
        with distributed.Client(cluster.address) as client:

            def is_waiting() -> bool:  # for workers
                return client.run_on_scheduler(lambda dask_scheduler: bool(dask_scheduler.tasks))

            wait_for(lambda: process.poll() is not None or is_waiting())
        for file in code.iterdir():
            file.unlink()
        cluster.workers = cluster.start_workers()
        ended, output, errors = finish(process)
    assert ended == 0, output + errors
    assert "1/1 backwards Gru trial 0: finished" in errors
    (rows,) = (file for name, file in results(study).items() if name.endswith(".parquet"))
    assert {(row["task"], row["approach"]) for row in rows} == {("backwards", "Gru")}
    page = (study / "report" / "index.html").read_text(encoding="utf-8")
    assert "backwards" in page
    assert "Gru" in page
