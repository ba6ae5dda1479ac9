"""Where this launch's rank table comes from: the platform's file, waited for; else our own cards, detected."""

from __future__ import annotations

import os
import time
from posixpath import join
from typing import TYPE_CHECKING, Callable, Mapping, Optional, Sequence, Tuple

from davincirun import files, ranktable
from davincirun.cluster import Server, SuperPod
from davincirun.errors import DeviceError, RankTableError, UsageError
from davincirun.host import this_host
from davincirun.identity import Me, find_me
from davincirun.messages import Messages
from davincirun.options import Options
from davincirun.pausing import Pause, Schedule
from davincirun.plan import TableFile
from davincirun.report import duration
from davincirun.values import Value

if TYPE_CHECKING:
    from davincirun.devices import Detected
    from davincirun.nodes import Nodes
    from davincirun.platforms import JobContext

GROUP_LIST_NAME = "jobstart_hccl.json"
DEFAULT_PATH = f"/user/config/{GROUP_LIST_NAME}"
_VISIBLE = "ASCEND_RT_VISIBLE_DEVICES"
_MANY = 1 << 16  # more devices than any machine has: where we can't know how many there are


class Source(Value):
    """A rank table file that the user or the platform names."""

    path: str
    origin: str  # what names it


class Places(Value):
    """Where a table of ours may be written."""

    shared: str  # the platform's folder for converted tables, or the job's own
    own: str  # a path that is this launch's alone
    job_id: str = "job"


class Found(Value):
    """The table, who we are in it, and what the user should know about it."""

    file: TableFile
    world_size: int
    me: Me
    servers: Tuple[Server, ...]
    visible_devices: Optional[str]  # for the workers, when the user chose cards by an option
    notes: Tuple[str, ...]
    job_id: Optional[str] = None  # where the nodes have agreed on one


def table_source(
    option: Optional[str], environ: Mapping[str, str], is_dir: Callable[[str], bool], exists: Callable[[str], bool]
) -> Optional[Source]:
    """The table to use, in the platform's order; None: nobody names one and the default isn't there.

    RANK_TABLE_FILE names a directory on ModelArts, and everywhere else a file.
    """
    if option:
        return Source(_file_in(option, is_dir), "--rank-table")
    if environ.get("RANK_TABLE_FILE_V_1_0"):
        return Source(environ["RANK_TABLE_FILE_V_1_0"], "RANK_TABLE_FILE_V_1_0")
    if environ.get("RANK_TABLE_FILE"):
        return Source(_file_in(environ["RANK_TABLE_FILE"], is_dir), "RANK_TABLE_FILE")
    return Source(DEFAULT_PATH, "the platform's default") if exists(DEFAULT_PATH) else None


def find_table(
    options: Options,
    environ: Mapping[str, str],
    places: Places,
    pause: Pause,
    messages: Messages,
    nodes: Optional[Nodes] = None,
) -> Found:
    """The table of this launch. RankTableError, DeviceError, IdentityError or UsageError say why there is none."""
    source = None
    if not options.simulate:
        source = table_source(options.rank_table, environ, os.path.isdir, os.path.exists)
    elif options.rank_table:
        raise UsageError("--simulate makes a rank table of its own: leave out either it or --rank-table")
    if source is not None:
        if options.devices:
            raise UsageError(f"--devices: the rank table {source.path} says which cards are used; leave out either")
        context = None if nodes is None else nodes.context
        return _from_file(source, options, environ, places, pause, messages, context)
    if options.simulate:
        from davincirun.devices.simulated import simulate

        detected = simulate(options.simulate, 0 if nodes is None else nodes.simulated_index)
        return _from_devices(detected, "simulated cards", options, environ, places, nodes)
    detected = _detect(options, environ, pause, messages)
    return _from_devices(detected, "made from the cards of this machine", options, environ, places, nodes)


def _detect(options: Options, environ: Mapping[str, str], pause: Pause, messages: Messages) -> Detected:
    """This machine's cards; says what it waits for when a tool is slow, and ends at once when we are told to stop."""
    from davincirun.devices.detect import detect

    messages.detail("no rank table is named: looking for this machine's cards")
    seconds = options.detect_timeout_seconds
    schedule = Schedule(float("inf"))

    def wait(fd: int, what: str) -> None:
        if schedule.is_due():
            messages.info(
                f"looking for this machine's cards: {what} hasn't answered; {duration(schedule.waited_seconds)} so far,"
                f" at most {duration(seconds)} for each tool"
            )
        pause([fd], schedule.pause_seconds)

    return detect(environ, timeout_seconds=seconds, require_healthy=options.require_healthy, wait=wait)


def _file_in(path: str, is_dir: Callable[[str], bool]) -> str:
    if is_dir(path) or not (os.path.exists(path) or path.endswith(".json")):
        return join(path, GROUP_LIST_NAME)
    return path


def _from_file(
    source: Source,
    options: Options,
    environ: Mapping[str, str],
    places: Places,
    pause: Pause,
    messages: Messages,
    context: Optional[JobContext],
) -> Found:
    table = _wait(source, options.rank_table_timeout_seconds, pause, messages)
    cluster = ranktable.to_cluster(table, source.path)
    me = find_me(cluster, environ, this_host, context)
    _check_visible(environ, len(me.devices))
    if table.form == "group_list":
        data = ranktable.from_servers(cluster.servers)
        file = TableFile(places.shared, data, f"converted from {source.path} ({source.origin})")
    elif os.path.islink(source.path):
        # torch_npu leaves a table that is a link out of account, without a word; ConfigMaps are full of links.
        file = TableFile(places.own, table.text, f"a copy of the link {source.path} ({source.origin})")
    else:
        file = TableFile(source.path, None, source.origin)
    return Found(file, cluster.world_size, me, cluster.servers, None, _unfit_version(table.form))


def _wait(source: Source, timeout_seconds: float, pause: Pause, messages: Messages) -> ranktable.RankTable:
    """The table once it is complete; says what it waits for, and gives up with what was wrong last."""
    started = time.monotonic()
    reason = ""
    schedule = Schedule(timeout_seconds)

    def look() -> Optional[ranktable.RankTable]:
        nonlocal reason
        try:
            read = ranktable.read(files.read(source.path), source.path)
        except (FileNotFoundError, NotADirectoryError):
            reason = "it is not there"
            return None
        except OSError as error:
            raise RankTableError(source.path, "", f"can't be read: {error.strerror}") from None
        if isinstance(read, ranktable.NotYet):
            reason = read.reason
            return None
        return read

    def pause_and_tell(fds: Sequence[int], seconds: float) -> None:
        if schedule.is_due():
            messages.info(
                f"waiting for the rank table {source.path} ({source.origin}): {reason};"
                f" {duration(schedule.waited_seconds)} so far,"
                f" at most {duration(timeout_seconds)} (--rank-table-timeout)"
            )
        pause(fds, seconds)

    table = files.wait_until(source.path, look, started + timeout_seconds, pause_and_tell)
    if table is None:
        raise RankTableError(
            source.path,
            "",
            f"not usable after {duration(timeout_seconds)}: {reason}. Is the controller that completes it running?"
            " --rank-table-timeout waits longer",
        )
    return table


def _unfit_version(form: str) -> Tuple[str, ...]:
    """A note if this machine's chip, as far as the PCI bus tells it, reads another version."""
    if not os.path.exists("/dev/davinci_manager"):
        return ()  # no driver, so no chip: not worth loading the devices' room
    from davincirun.devices.detect import generation_here

    generation = generation_here({}, ask=False)
    if generation == "unknown" or (generation == "950") == (form == "2.0"):
        return ()
    from davincirun.ranktable.validate import version_for_chip

    return tuple([finding.text for finding in version_for_chip(generation, form)])


def _check_visible(environ: Mapping[str, str], workers: int) -> None:
    """The user's choice of visible cards must leave one for each worker that the table wants here."""
    text = environ.get(_VISIBLE, "")
    if text.strip():
        from davincirun.devices.selection import parse_visible_devices

        visible = parse_visible_devices(text, _MANY)
        if len(visible) < workers:
            raise DeviceError(
                f"{_VISIBLE}={text}: {len(visible)} cards are visible, but the rank table has {workers} here:"
                " unset the variable, or use a table of these cards"
            )


def _from_devices(
    detected: Detected,
    origin: str,
    options: Options,
    environ: Mapping[str, str],
    places: Places,
    nodes: Optional[Nodes],
) -> Found:
    from davincirun.devices import cluster_device

    chosen, visible = _choose(detected, options.devices, environ)
    if nodes is not None and nodes.are_several:
        agreement, cluster, me = nodes.agree(chosen, places.job_id)
        file = TableFile(places.own, agreement.table, f"agreed among {me.node_count} nodes; {origin}")
        notes = (*chosen.notes, *agreement.notes)
        return Found(file, cluster.world_size, me, cluster.servers, visible, notes, agreement.job_id)
    host = this_host()
    name = environ.get("MA_CURRENT_HOST_IP") or next(iter(host.addresses), host.names[0])
    devices = tuple(cluster_device(rank, device) for rank, device in enumerate(chosen.devices))
    server = Server(name, devices)
    super_pods: Tuple[SuperPod, ...] = ()
    if chosen.super_pod_id is not None and all(device.super_device_id for device in devices):
        super_pods = (SuperPod(chosen.super_pod_id, (name,)),)
    version = ranktable.version_for(chosen.generation, bool(super_pods))
    data = ranktable.from_servers([server], version, super_pods)
    me = Me(name, devices, 0, 1, "this machine")
    return Found(TableFile(places.own, data, origin), len(devices), me, (server,), visible, chosen.notes)


def _choose(detected: Detected, option: Optional[str], environ: Mapping[str, str]) -> Tuple[Detected, Optional[str]]:
    """The cards to use, and what ASCEND_RT_VISIBLE_DEVICES has to be for that; None: leave it as it is."""
    from davincirun.devices import selection

    if option:
        ids = selection.parse_devices_option(option)
        return selection.select(detected, ids), ",".join(map(str, ids))
    text = environ.get(_VISIBLE, "")
    if text.strip():
        return selection.select(detected, selection.parse_visible_devices(text, len(detected.devices))), None
    return detected, None
