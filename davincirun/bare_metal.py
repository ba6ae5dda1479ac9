"""`davincirun --hosts HOSTS COMMAND` from one shell: mpirun starts one launcher per node, and they meet here.

mpirun only starts the launchers and brings their output here. What they agree on, who failed first and that all have
ended well comes over the meeting that this process holds: mpirun's own exit status can't be trusted with that
(Open MPI 5 ends with 0 when a node is lost), nor its way to stop a job (it kills half a second after TERM).
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
from posixpath import join
from typing import Dict, List, Mapping, Optional, Tuple

from davincirun import files, planning
from davincirun.errors import UsageError
from davincirun.host import this_host
from davincirun.lifecycle import NO_NODE, NodeFailed, signal_name
from davincirun.messages import Messages
from davincirun.mpi.command import Command, Request, as_shell, mpirun_command
from davincirun.mpi.hosts import Nodes as Hosts
from davincirun.mpi.hosts import find_nodes, host_file_text, read_host_file
from davincirun.mpi.plan import ask_version, find_mpirun
from davincirun.options import Options
from davincirun.pausing import Interrupted, Pause
from davincirun.rendezvous.agreement import Agreement
from davincirun.rendezvous.choice import POINT
from davincirun.rendezvous.liaison import Liaison
from davincirun.rendezvous.news import Done, Left, Progress, Refused, Warned
from davincirun.rendezvous.server import Server
from davincirun.rendezvous.sockets import Place
from davincirun.rendezvous.terms import Terms
from davincirun.rendezvous.wire import job_key
from davincirun.report import failed_node

_LAUNCHER = (
    "import base64, json, os, sys; sys.path.insert(0, sys.argv[1]); from davincirun.cli import main;"
    " sys.exit(main(['--', *json.loads(base64.b64decode(sys.argv[2]).decode())], os.environ))"
)
_PASSED_ON = ("ASCEND_", "HCCL_", "DAVINCIRUN_", "PYTHON", "LD_LIBRARY_PATH", "MA_")
_NOT_PASSED_ON = ("DAVINCIRUN_HOSTS", "DAVINCIRUN_RUN_ID", "DAVINCIRUN_NODES", "DAVINCIRUN_NODE_RANK")
_SECONDS_FOR_MPIRUN = 10.0  # beyond the workers' grace
_SECONDS_AFTER_ALL = 4.0  # to end by itself once all launchers have


def show_plan(options: Options, environ: Mapping[str, str]) -> str:
    """What would be started, as a line for a shell."""
    start = _Start(options, environ)
    variables = sorted(start.variables)
    return f"{start.host_file_path}:\n{start.host_file}\n{as_shell(start.command, variables)}\n"


def launch(options: Options, environ: Mapping[str, str], pause: Pause, messages: Messages) -> int:
    """Start the job on all hosts and stay until it has ended; the exit status."""
    start = _Start(options, environ)
    terms = Terms(
        key=job_key(start.job_id, start.key),
        node_count=len(start.hosts.nodes),
        hosts=start.hosts.hosts,
        timeout_seconds=options.rendezvous_timeout_seconds,
        silence_seconds=options.node_timeout_seconds,
    )
    server = Server(Place(("*", "*"), (0,)), None, terms)
    server.open()
    variables = {**start.variables, "DAVINCIRUN_RENDEZVOUS": _where(server.port)}
    files.write_atomically(start.host_file_path, start.host_file.encode())
    messages.info(f"job {start.job_id}: {len(start.hosts.nodes)} nodes ({start.hosts.origin}), through mpirun")
    process = subprocess.Popen(
        start.command.argv,
        env={**environ, **start.command.changes, **variables},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return _Conductor(process, Liaison(server), options, messages).conduct(pause)
    finally:
        _end(process)
        os.unlink(start.host_file_path)


class _Start:
    """mpirun's command for this launch, and what it needs."""

    def __init__(self, options: Options, environ: Mapping[str, str]) -> None:
        if options.rank_table:
            raise UsageError(
                "--hosts has the nodes make a rank table of their own: leave out either it or --rank-table"
            )
        names = planning.names(options, environ, None)
        self.job_id = names.job_id
        self.key = os.urandom(32).hex()
        self.hosts, extra = _hosts(options.hosts or "", environ)
        self.host_file_path = join(names.log_dir, names.job_id, f"hosts_{names.run_id}")
        self.host_file = host_file_text([node._replace(slots=1) for node in self.hosts.nodes], 1)
        self.variables = {**_variables(options, names.job_id), "DAVINCIRUN_RENDEZVOUS_KEY": self.key}
        path = find_mpirun(environ)
        passed_on = {name for name in environ if name.startswith(_PASSED_ON) and name not in _NOT_PASSED_ON}
        package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        words = base64.b64encode(json.dumps(options.command).encode("ascii")).decode("ascii")
        request = Request(
            mpirun=path,
            version=ask_version(path, environ),
            ranks=len(self.hosts.nodes),
            hosts=self.hosts.hosts,
            host_file_path=self.host_file_path,
            port=self.hosts.port,
            tune_path=None,
            shim=(sys.executable, "-c", _LAUNCHER, package, words),
            shim_variables=tuple(sorted({"PATH", "DAVINCIRUN_RENDEZVOUS", *self.variables, *passed_on})),
            visible_devices=None,
            is_root=os.geteuid() == 0,
        )
        self.command: Command = mpirun_command(request, {**environ, **_mpirun_settings(environ, extra)})


class _Conductor:
    """Looks after mpirun and the meeting until both have ended."""

    def __init__(
        self, process: "subprocess.Popen[bytes]", liaison: Liaison, options: Options, messages: Messages
    ) -> None:
        self._process = process
        self._liaison = liaison
        self._grace_seconds = options.grace_seconds
        self._messages = messages
        self._verdict: Optional[NodeFailed] = None
        self._has_agreed = False
        self._has_left = False
        self._deadline: Optional[float] = None

    def conduct(self, pause: Pause) -> int:
        while True:
            self._hear()
            if self._process.poll() is not None and (self._has_left or not self._has_agreed or self._is_over):
                return self._status(self._process.returncode)
            if self._is_over:
                self._messages.warning("mpirun hasn't ended by itself: killed")
                _end(self._process)
                continue
            try:
                pause([self._liaison.fd], None if self._deadline is None else self._deadline - time.monotonic())
            except Interrupted as stopped:
                self._stop(stopped.exit_status - 128)

    @property
    def _is_over(self) -> bool:
        return self._deadline is not None and time.monotonic() >= self._deadline

    def _hear(self) -> None:
        for news in self._liaison.take():
            if isinstance(news, Agreement):
                self._has_agreed = True
                self._messages.info(f"all {len(news.nodes)} nodes have come and agreed on a rank table")
                self._liaison.give(Done())
            elif isinstance(news, NodeFailed):
                self._verdict = news
                self._wait_at_most(self._grace_seconds + _SECONDS_FOR_MPIRUN)
            elif isinstance(news, Refused):
                self._messages.error(news.text)
                self._wait_at_most(_SECONDS_FOR_MPIRUN)
            elif isinstance(news, (Progress, Warned)):
                self._messages.info(news.text)
            elif isinstance(news, Left):
                self._has_left = True
                self._wait_at_most(_SECONDS_AFTER_ALL)
        if self._process.poll() is not None and self._has_agreed and not self._has_left:
            self._wait_at_most(_SECONDS_FOR_MPIRUN)  # the launchers' last words are still on their way, or never come

    def _wait_at_most(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        self._deadline = deadline if self._deadline is None else min(self._deadline, deadline)

    def _stop(self, signum: int) -> None:
        """Have all nodes stop as their own launchers do; told again, have mpirun kill them."""
        if self._verdict is not None or not self._has_agreed:
            self._process.send_signal(signal.SIGTERM)
        status = 128 + signum
        failure = NodeFailed(NO_NODE, os.uname().nodename, status, problem=f"stopped by {signal_name(signum)}")
        self._verdict = self._verdict or failure
        self._wait_at_most(self._grace_seconds + _SECONDS_FOR_MPIRUN)
        if self._has_agreed:
            self._liaison.give(failure)

    def _status(self, mpirun_status: int) -> int:
        if self._verdict is not None:
            self._messages.block(f"davincirun: {failed_node(self._verdict)}; all nodes were stopped\n")
            return self._verdict.status
        if self._has_left and self._has_agreed:
            if self._messages.is_talkative:
                self._messages.block("davincirun: all nodes finished\n")
            return 0
        status = mpirun_status if mpirun_status > 0 else 1
        self._messages.block(
            f"davincirun: mpirun ended with status {mpirun_status} before all nodes had come or ended\n"
        )
        return status


def _hosts(text: str, environ: Mapping[str, str]) -> Tuple[Hosts, Optional[str]]:
    """The nodes in a host file or a list, and the user to log in as where the file names one for all."""
    if not os.path.exists(text):
        return find_nodes(text, environ, None), None
    try:
        content = files.read(text).decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(f"--hosts: {text}: {os.strerror(error.errno or 0)}") from None
    nodes = read_host_file(content)
    lines = [line.split("#", 1)[0].split() for line in content.splitlines()]
    users = {words[0].rpartition("@")[0] for words in lines if words}
    if len(users) > 1:
        raise UsageError(f"--hosts: {text}: one user for all nodes; several belong into ~/.ssh/config")
    return find_nodes(",".join(node.host for node in nodes), environ, None)._replace(origin=text), users.pop() or None


def _mpirun_settings(environ: Mapping[str, str], user: Optional[str]) -> Dict[str, str]:
    """The OPENMPI_ variables, as far as the user leaves them to us: one process per node, bound to no core."""
    settings = {"OPENMPI_BIND_ARGS": "--bind-to none --map-by ppr:1:node", "OPENMPI_X_ARGS": ""}
    if user:
        settings["OPENMPI_EXTRA_ARGS"] = f'{environ.get("OPENMPI_EXTRA_ARGS", "")} --mca plm_rsh_args "-l {user}"'
        return {**settings, "OPENMPI_MCA_ARGS": "--mca plm_rsh_no_tree_spawn true"}
    return {name: environ.get(name, value) for name, value in settings.items()}


def _variables(options: Options, job_id: str) -> Dict[str, str]:
    """Our options for the launchers on the nodes."""
    given = {
        "SIMULATE": options.simulate,
        "DEVICES": options.devices,
        "LOG_DIR": options.log_dir and os.path.abspath(options.log_dir),
        "JOB_ID": job_id,
        "WORKDIR": os.path.abspath(options.workdir or "."),  # mpirun takes a missing one for the user's home
        "GRACE": str(options.grace_seconds),
        "NODE_TIMEOUT": str(options.node_timeout_seconds),
        "RENDEZVOUS_TIMEOUT": str(options.rendezvous_timeout_seconds),
        "PREFIX": None if options.prefix is None else str(int(options.prefix)),
        "QUIET": "1" if options.verbosity < 0 else None,
        "VERBOSE": "1" if options.verbosity > 0 else None,
        "ENGINE": "ascend",
    }
    return {f"DAVINCIRUN_{name}": value for name, value in given.items() if value is not None}


def _where(port: int) -> str:
    host = this_host()
    hosts: List[str] = [*(address for address in host.addresses if ":" not in address), *host.names, "127.0.0.1"]
    return f"{POINT}://{','.join(hosts)}:{port}"


def _end(process: "subprocess.Popen[bytes]") -> None:
    """mpirun ends its helpers on TERM; what doesn't end is killed."""
    for signum in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        os.killpg(process.pid, signum)
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            continue
