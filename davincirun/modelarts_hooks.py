"""What ModelArts' images expect a launcher to start around a job: operator, slogd, log upload, route planning.

Nothing here logs, starts a thread or waits without a bound of its own or its caller's; what fails raises
PlatformError. Processes that outlive a call are handed over by pid: the supervisor reaps every child of the launcher.
`root` is "/" on a machine; `run` runs a command to its end and returns its exit status.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, Sequence, Tuple

from davincirun.cluster import Server
from davincirun.errors import PlatformError
from davincirun.modelarts import LogUpload, Operator, RoutePlan, completed_topology, planned_server
from davincirun.values import Value

if TYPE_CHECKING:
    import socket

NO_ARCHIVE = 255  # install_operator's status when the download holds no *.run
UPLOAD_INTERVAL_SECONDS = 30.0
UPLOAD_GRACE_SECONDS = 180.0  # the copy under way, the last one and a reserve, a minute each

_DRIVER_TOOLS = "usr/local/Ascend/driver/tools"

# The place of this package, be it a folder or a zip file, is on the path only while the package is imported: left
# there, what else lies beside it could shadow the standard library. So could the current directory, "".
_MAIN_OF = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); import davincirun;"
    " sys.path[:] = [place for place in sys.path[1:] if place];"
    " from davincirun.{module} import main; sys.exit(main(sys.argv[1:]))"
)


class Uploader(Value):
    """A running log upload; `channel` becomes readable when the process `pid` has ended."""

    pid: int
    channel: socket.socket


class Route(Value):
    """What route planning decided for this node."""

    server: Server  # this node's devices in their new order
    table_path: str  # the table that all nodes use from now on
    environment: Mapping[str, str]  # variables that planning has set for the workers


def run_command(argv: Sequence[str], environ: Mapping[str, str], seconds: Optional[float] = None) -> int:
    """Run `argv` in a session of its own; its exit status, 128+n after signal n.

    Raises PlatformError when it can't be started, or is still running after `seconds` and has been killed.
    """
    import signal
    import subprocess

    try:
        process = subprocess.Popen(argv, env=environ, stdin=subprocess.DEVNULL, start_new_session=True)
    except OSError as error:
        raise PlatformError(f"{argv[0]}: can't be run: {error.strerror}") from None
    try:
        status = process.wait(seconds)
    except subprocess.TimeoutExpired:
        raise PlatformError(f"{argv[0]}: still running after {seconds:g} s, so it was killed") from None
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return status if status >= 0 else 128 - status


def install_operator(
    operator: Operator,
    environ: Mapping[str, str],
    run: Callable[[Sequence[str], Mapping[str, str]], int] = run_command,
) -> int:
    """Fetch the archive and run the first `*.run` in it; the first status that isn't 0, NO_ARCHIVE without one."""
    import shutil
    import stat

    try:
        shutil.rmtree(operator.folder, ignore_errors=True)
        os.makedirs(operator.folder)
        status = run(operator.argv, environ)
        if status != 0:
            return status
        archives = sorted(name for name in os.listdir(operator.folder) if name.endswith(".run"))
        if not archives:
            return NO_ARCHIVE
        archive = os.path.join(operator.folder, archives[0])
        os.chmod(archive, os.stat(archive).st_mode | stat.S_IXUSR)
        return run((archive,), environ)
    except OSError as error:
        raise PlatformError(f"operator {operator.url}: {error}") from None
    finally:
        shutil.rmtree(operator.folder, ignore_errors=True)


def start_slogd(environ: Mapping[str, str], root: str = "/") -> Optional[int]:
    """Start the log daemon of older drivers; its pid, None where the driver has none.

    It makes a daemon of itself, so call this before the launcher becomes a child subreaper. It gets none of our
    descriptors: a reader of the launcher's output would wait for it for ever.
    """
    import subprocess

    path = os.path.join(root, _DRIVER_TOOLS, "docker", "slogd")
    if not os.path.isfile(path):
        return None
    return _start((path,), environ, subprocess.DEVNULL, subprocess.DEVNULL)


def post_stop(environ: Mapping[str, str], root: str = "/", seconds: float = 60.0) -> Optional[int]:
    """Run the driver's script for the end of a container; its exit status, None where there is no such script."""
    path = os.path.join(root, _DRIVER_TOOLS, "docker_stop_post_sys.sh")
    return run_command((path,), environ, seconds) if os.path.isfile(path) else None


def start_log_upload(
    upload: LogUpload, environ: Mapping[str, str], interval_seconds: float = UPLOAD_INTERVAL_SECONDS
) -> Uploader:
    """Copy the file every `interval_seconds` and once more at the end, in a process: moxing may block for minutes.

    The end is `stop_log_upload`, or the launcher's own death. Signals to the launcher's group don't reach it.
    """
    import socket

    ours, theirs = socket.socketpair()
    with theirs:
        argv = _python("log_upload", upload.source, upload.target, str(interval_seconds))
        return Uploader(_start(argv, environ, theirs, 2), ours)


def stop_log_upload(uploader: Uploader) -> None:
    """Ask for the last copy; returns at once."""
    import socket

    uploader.channel.shutdown(socket.SHUT_WR)


def finish_log_upload(uploader: Uploader, seconds: float = UPLOAD_GRACE_SECONDS) -> Optional[int]:
    """Wait for the last copy, kill what takes longer than `seconds`, and reap.

    The exit status: 0, `log_upload.NO_MOXING`, another when the last copy failed; None if it was reaped elsewhere.
    """
    import select
    import signal

    stop_log_upload(uploader)
    ended = select.poll()
    ended.register(uploader.channel, select.POLLIN)
    if not ended.poll(seconds * 1000):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(uploader.pid, signal.SIGKILL)  # the channel is open, so a process of this group still lives
    uploader.channel.close()
    try:
        _, status = os.waitpid(uploader.pid, 0)
    except ChildProcessError:
        return None
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def await_topology(plan: RoutePlan, wait: Callable[[float], Any], clock: Callable[[], float] = time.monotonic) -> str:
    """The network's topology as JSON, once its file is complete; `wait(seconds)` passes the time between looks.

    Raises PlatformError when the file isn't complete within `plan.wait_seconds`.
    """
    deadline = clock() + plan.wait_seconds
    while True:
        topology = _read_topology(plan.topology_path)
        if topology is not None:
            return topology
        remaining = deadline - clock()
        if remaining <= 0:
            raise PlatformError(
                f"{plan.topology_path}: not complete after {plan.wait_seconds:g} s (ROUTE_TOPO_WAIT_TIME)"
            )
        wait(min(1.0, remaining))


def plan_route(
    topology: str,
    rank_table_path: str,
    server_id: str,
    environ: Mapping[str, str],
    root: str = "/",
    run: Callable[[Sequence[str], Mapping[str, str]], int] = run_command,
) -> Route:
    """Let the platform's `route_plan` library order the ranks by `topology`, in a process of its own.

    Raises PlatformError on any failure, for which the table at `rank_table_path` remains good.
    """
    import json
    import tempfile

    table_path = os.path.join(os.path.dirname(rank_table_path), "jobstart_routeplan.json")
    with tempfile.TemporaryDirectory(prefix="davincirun-route-") as folder:
        topology_path = os.path.join(folder, "ranktable_tor_decompress.json")
        answer_path = os.path.join(folder, "answer.json")
        with open(topology_path, "w", encoding="utf-8") as file:
            file.write(topology)
        library = os.path.join(root, "usr/local/route")
        places = (library, topology_path, rank_table_path, table_path, server_id, answer_path)
        status = run(_python("route_planning", *places), environ)
        if not os.path.isfile(answer_path):
            raise PlatformError(f"route planning ended with status {status} and no answer")
        with open(answer_path, encoding="utf-8") as file:
            answer = json.load(file)
    if "error" in answer:
        raise PlatformError(f"route planning failed: {answer['error']} (DEBUG_ROUTE_PLAN=true shows where)")
    server = planned_server(answer["result"])
    if not os.path.isfile(table_path):
        raise PlatformError(f"{table_path}: route planning has not written it")
    return Route(server, table_path, answer["environment"])


def _read_topology(path: str) -> Optional[str]:
    try:
        with open(path, "rb") as file:
            return completed_topology(file.read())
    except OSError:
        return None  # not mounted yet; the deadline will tell


def _python(module: str, *arguments: str) -> Tuple[str, ...]:
    """The command that runs `main` of one of this package's modules."""
    import sys

    place = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return (sys.executable, "-c", _MAIN_OF.format(module=module), place, *arguments)


def _start(argv: Sequence[str], environ: Mapping[str, str], stdin: Any, output: int) -> int:
    """Start a process that the supervisor will reap; its pid."""
    import subprocess

    try:
        process = subprocess.Popen(argv, env=environ, stdin=stdin, stdout=output, stderr=output, start_new_session=True)
    except OSError as error:
        raise PlatformError(f"{argv[0]}: can't be run: {error.strerror}") from None
    process.returncode = 0  # else a later Popen would wait for this pid, which is no longer subprocess's business
    return process.pid
