"""mpirun's command line: one for all versions, made of the platform's OPENMPI_ variables.

    mpirun -np N --hostfile F --mca plm_rsh_args "-p PORT ..." -x NAME... BIND X MCA EXTRA --stdin none SHIM...

The variables and their defaults are those of ModelArts' Horovod/MPI/MindSpore-GPU engine; their spelling is
`arguments`'. OPENMPI_RAW=1 passes them on as they are.
"""

from __future__ import annotations

import re
import shlex
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

from davincirun.errors import PlatformError, UsageError
from davincirun.mpi.arguments import Group, Rewritten, parameters, rewritten, untouched, without_repeats
from davincirun.mpi.tune import broadcast_names
from davincirun.values import Value

DEFAULTS = {
    "OPENMPI_BIND_ARGS": "-bind-to none -map-by slot",
    "OPENMPI_X_ARGS": "-x LD_LIBRARY_PATH -x HOROVOD_MPI_THREADS_DISABLE=1 -x NCCL_DEBUG=INFO"
    " -x NCCL_SOCKET_IFNAME=ib0,bond0,eth0 -x NCCL_SOCKET_FAMILY=AF_INET -x NCCL_IB_DISABLE=0",
    "OPENMPI_MCA_ARGS": "-mca pml ob1 -mca btl ^openib -mca plm_rsh_no_tree_spawn true",
    "OPENMPI_EXTRA_ARGS": "",
}
# Else a pulled cable is noticed by nobody: Open MPI's own default takes eight minutes, ssh's has none.
KEEP_ALIVES = {"oob_tcp_keepalive_time": "10", "oob_tcp_keepalive_intvl": "5", "oob_tcp_keepalive_probes": "3"}
_SSH_KEEP_ALIVES = {"ServerAliveInterval": "10", "ServerAliveCountMax": "3"}
_SSH_PARAMETERS = ("plm_rsh_args", "plm_ssh_args")  # the latter is 5.0's own name, which 4.1 doesn't know
_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
_OLDEST = (4, 0)


class Version(Value):
    """Which Open MPI an mpirun belongs to."""

    numbers: Tuple[int, ...]
    text: str


class Request(Value):
    """What is to be started where."""

    mpirun: str  # its path, or its name when login shells find it too
    version: Version
    ranks: int
    hosts: Tuple[str, ...]
    host_file_path: str
    port: int  # of the nodes' sshds
    tune_path: Optional[str]  # a file of the user's own for --tune
    shim: Tuple[str, ...]  # the command that mpirun starts as each rank
    shim_variables: Tuple[str, ...]  # that it needs on every node
    visible_devices: Optional[str]  # CUDA_VISIBLE_DEVICES of all ranks; None: left as it is
    is_root: bool


class Command(Value):
    """How mpirun is started."""

    argv: Tuple[str, ...]
    changes: Dict[str, str]  # to its environment
    notes: Tuple[str, ...]  # what became of the variables, and why


def read_version(text: str) -> Version:
    """The version in what `mpirun --version` printed. PlatformError: it isn't Open MPI, or too old."""
    first = text.strip().split("\n", 1)[0]
    match = re.search(r"\((?:Open MPI|OpenRTE)\)\s+(\d+(?:\.\d+)+)", text)
    if not match:
        raise PlatformError(f"mpirun: not Open MPI: {first!r}; the GPU engine needs Open MPI 4 or 5 first on PATH")
    numbers = tuple(int(number) for number in match.group(1).split("."))
    if numbers < _OLDEST:
        raise PlatformError(f"mpirun: Open MPI {match.group(1)} is too old; the GPU engine needs 4.0 or later")
    return Version(numbers, match.group(1))


def mpirun_command(request: Request, environ: Mapping[str, str]) -> Command:
    """mpirun's argv and the changes to its environment. UsageError: a variable can't be parted into words."""
    is_raw = environ.get("OPENMPI_RAW", "") not in ("", "0", "false")
    parts = [_part(name, environ, is_raw) for name in DEFAULTS]
    own = [("-np", str(request.ranks)), ("--hostfile", request.host_file_path)]
    chosen = [] if request.visible_devices is None else ["CUDA_VISIBLE_DEVICES"]
    exported = [("-x", name) for name in (*broadcast_names(environ), *request.shim_variables, *chosen)]
    theirs = [group for part in parts for group in part.groups]
    groups = [*own, *([("--tune", request.tune_path)] if request.tune_path else []), *exported, *theirs]
    notes = [note for part in parts for note in part.notes]
    if not is_raw:
        groups, more = _completed(groups, request, environ)
        notes += more
    else:
        groups[2:2] = [("--mca", "plm_rsh_args", f"-p {request.port}")]
        groups.append(("--stdin", "none"))
        notes.append("OPENMPI_RAW: the OPENMPI_ variables are passed on as they are")
    changes = {name: value for part in parts for name, value in part.variables.items()}
    changes.update(_own_variables(request, environ))
    words = [word for group in groups for word in group]
    return Command((request.mpirun, *words, *request.shim), changes, tuple(notes))


def as_shell(command: Command, hidden: Sequence[str]) -> str:
    """The command as a line for a shell; the values of `hidden` variables are left out."""
    variables = [f"{name}={'(secret)' if name in hidden else value}" for name, value in sorted(command.changes.items())]
    words = [*(["env", *variables] if variables else []), *command.argv]
    return " ".join(map(shlex.quote, words))


def _part(name: str, environ: Mapping[str, str], is_raw: bool) -> Rewritten:
    """An unset variable has its default; an empty one is empty, as the platform's scripts see it."""
    given = environ.get(name)
    if given is not None and is_raw:
        return untouched(name, given)
    return rewritten(name, DEFAULTS[name] if given is None else given, environ)


def _completed(groups: Sequence[Group], request: Request, environ: Mapping[str, str]) -> Tuple[List[Group], List[str]]:
    """The options without repeats, and with ssh's arguments and keep-alives where the user has not set them."""
    kept, notes = without_repeats(groups)
    mca = parameters(kept)
    users = [mca[name] for name in _SSH_PARAMETERS if name in mca]
    result = [group for group in kept if not (group[0] == "--mca" and group[1] in _SSH_PARAMETERS)]
    # 5.0 cuts the arguments at their first "=" when it hands them to a node that is to start others (a tree).
    is_flat = mca.get("plm_rsh_no_tree_spawn", "").lower() in ("1", "true", "yes")
    result[2:2] = [("--mca", "plm_rsh_args", _ssh_arguments(" ".join(users), request.port, is_flat))]
    for name, value in KEEP_ALIVES.items():
        if name not in mca and not any(f"{prefix}_MCA_{name}" in environ for prefix in ("OMPI", "PRTE")):
            result.append(("--mca", name, value))
    if request.version.numbers < (5,) and any(":" in host for host in request.hosts) and "regx" not in mca:
        result.append(("--mca", "regx", "naive"))  # what 4.1 else makes of a list of IPv6 addresses kills its daemons
    if not any(group[0] == "--stdin" for group in result):
        result.append(("--stdin", "none"))  # a rank that reads stdin never ends under 5.0 otherwise
    return result, list(notes)


def _ssh_arguments(users: str, port: int, keep_alive: bool) -> str:
    """ssh's arguments: ours, then the user's; ssh takes the first value that it meets, so what he sets isn't ours."""
    try:
        words = shlex.split(users)
    except ValueError as error:
        raise UsageError(f"plm_rsh_args: {users!r}: {error}") from None
    ours = [] if any(re.match(r"-p|-?o?Port=", word) for word in words) else ["-p", str(port)]
    for name, value in _SSH_KEEP_ALIVES.items():
        if keep_alive and name.lower() not in users.lower():
            ours += ["-o", f"{name}={value}"]
    return " ".join([*ours, users]).strip()


def _own_variables(request: Request, environ: Mapping[str, str]) -> Dict[str, str]:
    changes: Dict[str, str] = {}
    if request.visible_devices is not None:
        changes["CUDA_VISIBLE_DEVICES"] = request.visible_devices
    if request.is_root:
        changes.update(_ROOT)
    if any("." in host and not host.replace(".", "").isdigit() and ":" not in host for host in request.hosts):
        # Open MPI cuts a name at its first dot otherwise, and a pod's short name can't be resolved from other pods.
        changes["OMPI_MCA_orte_keep_fqdn_hostnames"] = "true"
        changes["PRTE_MCA_prte_keep_fqdn_hostnames"] = "true"
    return {name: value for name, value in changes.items() if environ.get(name) != value}
