"""Starting, looking at, signalling and reaping workers: real processes, one call at a time."""

from __future__ import annotations

import errno
import os
import resource
import select
import signal
import sys
from typing import Callable, Iterator, Tuple

import pytest
from helpers.processes import has_ended, state

from davincirun import processes as module
from davincirun.descendants import carriers, descendants
from davincirun.lifecycle import Exit
from davincirun.processes import Processes, StartError

WAITS = (sys.executable, "-S", "-c", "import os, signal; os.write(1, b'r'); signal.pause()")


class Workers:
    """Processes under test, with one pipe for all that they print."""

    def __init__(self, environ: dict) -> None:
        self.poll = select.epoll()
        self.processes = Processes(self.poll, b"COOKIE=x", True)
        self._reader, self._writer = os.pipe()
        self._environ = environ
        self._stdin = os.open(os.devnull, os.O_RDONLY)

    def start(self, rank: int, *argv: str, cwd: str = "/") -> int:
        self.processes.start(rank, argv, self._environ, cwd, self._stdin, self._writer)
        return self.processes.pids[rank]

    def read(self, count: int) -> bytes:
        assert select.select([self._reader], [], [], 10)[0]
        return os.read(self._reader, count)

    def close(self) -> None:
        for rank in list(self.processes.pids):
            if self.processes._by_rank.get(rank):
                os.kill(self.processes.pids[rank], signal.SIGKILL)
                self.processes.reap(rank)
        self.processes.close()
        for fd in (self._reader, self._writer, self._stdin):
            os.close(fd)
        self.poll.close()


@pytest.fixture
def workers() -> Iterator[Workers]:
    workers = Workers(dict(os.environ))
    yield workers
    workers.close()


@pytest.mark.parametrize(
    ("script", "exit"),
    [
        ("exit 0", Exit(code=0)),
        ("exit 3", Exit(code=3)),
        ("kill -9 $$", Exit(signum=9)),
        ("kill -15 $$", Exit(signum=15)),
    ],
)
def test_an_end_is_looked_at_before_it_is_reaped(workers: Workers, script: str, exit: Exit) -> None:
    pid = workers.start(0, "sh", "-c", script)
    assert has_ended(pid, 10)
    looked = workers.processes.look_at(0)
    assert looked is not None and looked[0] == exit and looked[1] > 0
    assert state(pid) == "Z"
    workers.processes.reap(0)
    assert state(pid) == "X"
    assert workers.processes.look_at(0) is None


def test_a_running_worker_has_no_end(workers: Workers) -> None:
    workers.start(0, *WAITS)
    assert workers.processes.look_at(0) is None


def test_each_end_is_reported_by_a_descriptor_in_the_order_of_ends(workers: Workers) -> None:
    pids = [workers.start(rank, *WAITS) for rank in range(4)]
    for rank in (2, 0, 3):
        os.kill(pids[rank], signal.SIGTERM)
        assert has_ended(pids[rank], 10)
    reported = [workers.processes.rank_of(fd) for fd, _ in workers.poll.poll(10)]
    assert reported == [2, 0, 3]


def test_without_pidfds_an_end_is_found_among_the_children(workers: Workers, monkeypatch) -> None:
    monkeypatch.setattr(module, "_pidfd_open", lambda pid: -1)
    pid = workers.start(5, *WAITS)
    assert not workers.processes.reports_ends
    assert workers.processes.reap_strangers() == (None, False)
    os.kill(pid, signal.SIGTERM)
    assert has_ended(pid, 10)
    assert workers.processes.reap_strangers() == (5, False)
    workers.processes.reap(5)
    assert workers.processes.reap_strangers() == (None, True)


def test_a_signal_to_the_workers_spares_their_children(workers: Workers) -> None:
    pid = workers.start(0, "sh", "-c", "trap 'echo caught; kill $!' USR1; sleep 300 & echo r; wait; wait")
    assert workers.read(2) == b"r\n"
    workers.processes.signal_workers(signal.SIGUSR1)
    assert workers.read(7) == b"caught\n"
    assert has_ended(pid, 10)


def test_a_signal_to_the_groups_reaches_the_children_of_a_worker_that_has_ended(workers: Workers) -> None:
    pid = workers.start(0, "sh", "-c", "sleep 300 & echo $!")
    child = int(workers.read(100))
    assert has_ended(pid, 10)
    workers.processes.signal_groups(signal.SIGTERM)
    assert has_ended(child, 10)


def test_a_worker_leads_its_own_session(workers: Workers) -> None:
    pid = workers.start(0, *WAITS)
    assert os.getsid(pid) == os.getpgid(pid) == pid


@pytest.mark.parametrize(
    ("command", "status", "words"),
    [
        ("no-such-command", 127, "no-such-command: command not found"),
        ("/no/such/file", 127, "/no/such/file"),
        ("/", 126, "can't be executed"),
        ("/etc/passwd", 126, "can't be executed: Permission denied"),
    ],
)
def test_a_command_that_cannot_be_run_has_a_shells_status(
    workers: Workers, command: str, status: int, words: str
) -> None:
    with pytest.raises(StartError) as error:
        workers.start(0, command)
    assert error.value.status == status
    assert words in error.value.problem


def test_a_directory_that_cannot_be_entered_is_named(workers: Workers) -> None:
    with pytest.raises(StartError) as error:
        workers.start(0, "true", cwd="/no/such/folder")
    assert (error.value.status, error.value.problem[:47]) == (1, "/no/such/folder: can't be the working directory")


def test_the_limit_of_open_files_is_raised_for_us_and_as_given_for_workers(limit_of_open_files: Callable) -> None:
    limit_of_open_files(100)
    workers = Workers(dict(os.environ))
    workers.processes.make_room(1000)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 4000
    pid = workers.start(0, "sh", "-c", "ulimit -Sn")
    assert workers.read(100) == b"100\n"
    assert has_ended(pid, 10)
    workers.close()
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 100


def test_a_limit_that_is_high_enough_stays(workers: Workers) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    workers.processes.make_room(1)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


@pytest.fixture
def limit_of_open_files() -> Iterator[Callable[[int], None]]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield lambda limit: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


# The family tree and the cookie.


def test_descendants_are_found_in_any_session_parents_first(family: Tuple[int, int]) -> None:
    child, grandchild = family
    below = descendants(os.getpid())
    assert below.index(child) < below.index(grandchild)


def test_descendants_are_found_without_the_kernels_lists_of_children(family, monkeypatch) -> None:
    exists = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda path: not path.endswith("/children") and exists(path))
    below = descendants(os.getpid())
    assert below.index(family[0]) < below.index(family[1])


def test_carriers_of_the_cookie_are_found_and_no_others(family) -> None:
    assert set(carriers(b"COOKIE=yes")) == set(family)
    assert carriers(b"COOKIE=ye") == carriers(b"OOKIE=yes") == []


@pytest.fixture
def family(monkeypatch) -> Iterator[Tuple[int, int]]:
    """A child in its own session that has a child in another one."""
    reader, writer = os.pipe()
    script = "setsid sh -c 'echo $$; read -r _' & wait"
    monkeypatch.setenv("COOKIE", "yes")
    stdin, keep = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.dup2(writer, 1)
        os.dup2(stdin, 3)
        os.execvp("sh", ["sh", "-c", script.replace("read -r _", "read -r _ <&3")])
    os.close(writer)
    os.close(stdin)
    grandchild = int(os.read(reader, 100))
    yield pid, grandchild
    os.close(keep)
    os.close(reader)
    os.waitpid(pid, 0)


def test_what_has_no_interpreter_is_explained(workers: Workers, tmp_path) -> None:
    (tmp_path / "script").write_text("no program\n")
    (tmp_path / "script").chmod(0o755)
    with pytest.raises(StartError) as error:
        workers.start(0, str(tmp_path / "script"))
    assert (error.value.status, os.strerror(errno.ENOEXEC) in error.value.problem) == (126, False)
    assert "#!" in error.value.problem
