"""One launch, in reading order: the table, who we are in it, the plan, the workers, the end."""

from __future__ import annotations

import os
import select
import time
from posixpath import join
from typing import Mapping, Optional, Sequence, Tuple

from davincirun import files, modelarts, preparation, report
from davincirun.console import Console, Style
from davincirun.descendants import become_subreaper
from davincirun.environment import Job, driver_version
from davincirun.errors import PlatformError
from davincirun.lifecycle import Event, Launch, WorkerExited, exit_status
from davincirun.messages import Messages
from davincirun.options import Options
from davincirun.output import Output
from davincirun.pausing import Pause
from davincirun.plan import LaunchPlan, Settings, environment, make_plan
from davincirun.processes import Processes
from davincirun.sink import Sink
from davincirun.supervise import Supervisor, WorkerCommand
from davincirun.tables import GROUP_LIST_NAME, Found, Places, find_table
from davincirun.values import Value
from davincirun.wakeup import Wakeup

_VERSION_INFO = "/usr/local/Ascend/driver/version.info"


def show_plan(options: Options, environ: Mapping[str, str]) -> int:
    """Print what a launch would do and create nothing; a table that isn't complete is waited for all the same."""
    from davincirun import plan_view

    with Wakeup() as wakeup:
        messages = Messages(Sink(2), _label(environ), options.verbosity)
        names = _names(options, environ)
        found = find_table(options, environ, names.places, Pause(wakeup, None), messages)
        plan = _plan(options, environ, names, found)
        _warn(found.notes, messages)
    print(plan_view.as_json(plan) + "\n" if options.json else plan_view.as_text(plan), end="")
    return 0


def launch(options: Options, environ: Mapping[str, str], lifeline_fd: int) -> int:
    """Launch the command on this node; the exit status. `lifeline_fd` reads end-of-file when the guardian is gone."""
    out, err = _sinks()
    with Wakeup() as wakeup:
        messages = Messages(err, _label(environ), options.verbosity)
        pause = Pause(wakeup, lifeline_fd)
        preparation.install_operator(environ, pause)
        names = _names(options, environ)
        found = find_table(options, environ, names.places, pause, messages)
        found, environ = preparation.plan_route(found, environ, pause, messages)
        plan = _plan(options, environ, names, found)
        _create(plan, messages)
        _warn(found.notes, messages)
        _announce(plan, messages)
        style = _style(options, environ, out, len(plan.workers))
        return _carry_out(plan, environ, wakeup, lifeline_fd, (out, err), style, messages)


class _Names(Value):
    """What the launch and its files are called."""

    job_id: str
    run_id: str
    log_dir: str
    places: Places


def _names(options: Options, environ: Mapping[str, str]) -> _Names:
    job_id = options.job_id or modelarts.job_id(environ, os.uname().nodename)
    log_dir = os.path.abspath(options.log_dir or modelarts.log_dir(environ, os.path.isdir))
    run_id = os.urandom(8).hex()
    base = modelarts.base_dir(environ, os.path.isdir) or join(log_dir, job_id)
    own = join(log_dir, job_id, "rank_table", f"hccl_{run_id}.json")
    return _Names(job_id, run_id, log_dir, Places(join(base, "rank_table", GROUP_LIST_NAME), own))


def _plan(options: Options, environ: Mapping[str, str], names: _Names, found: Found) -> LaunchPlan:
    cpu_ids = tuple(sorted(os.sched_getaffinity(0)))
    job = Job(
        job_id=names.job_id,
        log_dir=names.log_dir,
        rank_table_path=found.file.path,
        master_addr=_master_addr(found),
        master_port=_master_port(names.job_id, found.me.node_count),
        omp_num_threads=max(len(cpu_ids) // len(found.me.devices), 1),
        driver_version=_driver_version(),
        run_id=names.run_id,
    )
    settings = Settings(
        command=options.command,
        job=job,
        workspace=None if options.workdir else modelarts.workspace(environ, os.path.isdir),
        workdir=os.path.abspath(options.workdir or "."),
        grace_seconds=options.grace_seconds,
        cpu_ids=cpu_ids,
        visible_devices=found.visible_devices,
    )
    return make_plan(settings, found.file, found.me, found.world_size, environ)


def _master_addr(found: Found) -> str:
    """Where rank 0 is reached: ourselves on one node, else the first address that its server is known by."""
    if found.me.node_count == 1:
        return "127.0.0.1"
    first = min(found.servers, key=lambda server: server.lowest_rank)
    names = (first.server_id, *first.addresses)
    return next((name for name in names if ":" in name or name.replace(".", "").isdigit()), first.server_id)


def _master_port(job_id: str, node_count: int) -> int:
    """On one node a port that is free now; on several one that all derive from the job's name.

    The latter lies below the ports that Linux hands out by itself and clear of HCCL's 16666 and 60000.
    """
    if node_count > 1:
        import zlib

        return 20000 + zlib.crc32(job_id.encode("utf-8", "surrogateescape")) % 10000
    import _socket  # the C half of `socket`, which alone does what is needed here and loads 15 ms faster

    probe = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    try:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    finally:
        probe.close()
    return port


def _driver_version() -> Optional[str]:
    try:
        return driver_version(files.read(_VERSION_INFO).decode("utf-8", "replace"))
    except OSError:
        return None


def _warn(notes: Sequence[str], messages: Messages) -> None:
    for note in notes:
        messages.warning(note)


def _create(plan: LaunchPlan, messages: Messages) -> None:
    """Make the directories and the rank table that the plan names."""
    if plan.table.data is not None:
        try:
            files.write_atomically(plan.table.path, plan.table.data)
        except OSError as error:
            raise PlatformError(_unwritable(plan.table.path, "the rank table", error, "--log-dir")) from None
    _make_log_dir(plan.log_dir, messages)
    for worker in plan.workers:
        try:
            os.makedirs(worker.cwd, exist_ok=True)
        except OSError as error:
            raise PlatformError(_unwritable(worker.cwd, "the working directory", error, "--workdir")) from None
        for directory in worker.directories:
            try:
                os.makedirs(directory, exist_ok=True)
            except OSError as error:
                messages.warning(f"rank {worker.rank}: {directory} can't be made: {os.strerror(error.errno or 0)}")


def _make_log_dir(path: str, messages: Messages) -> None:
    """Missing, it is made for all users where it is the common /tmp/log; else for us."""
    try:
        if not os.path.isdir(path):
            os.makedirs(path, exist_ok=True)
            if os.path.dirname(path) == "/tmp":
                os.chmod(path, 0o1777)
    except OSError as error:
        messages.warning(
            f"{path} can't be made ({os.strerror(error.errno or 0)}): workers' output goes to the console alone"
        )


def _unwritable(path: str, what: str, error: OSError, option: str) -> str:
    return f"{path}: {what} can't be made there: {os.strerror(error.errno or 0)}; {option} names another place"


def _announce(plan: LaunchPlan, messages: Messages) -> None:
    ranks = report.ranges([worker.rank for worker in plan.workers])
    messages.info(
        f"job {plan.job_id}: rank{'s' if len(plan.workers) > 1 else ''} {ranks} of {plan.world_size}"
        f" on server {plan.server_id} ({plan.identity_reason})"
    )
    messages.info(f"rank table {plan.table.path} ({plan.table.origin}); logs in {plan.log_dir}")
    threads = plan.workers[0].changes.get("OMP_NUM_THREADS")
    if threads is not None:
        messages.info(f"OMP_NUM_THREADS={threads}: {len(plan.cpu_ids)} cores, shared by {len(plan.workers)} workers")


def _carry_out(
    plan: LaunchPlan,
    environ: Mapping[str, str],
    wakeup: Wakeup,
    lifeline_fd: int,
    sinks: Tuple[Sink, Sink],
    style: Style,
    messages: Messages,
) -> int:
    started = time.monotonic()
    out, _ = sinks
    subreaper = become_subreaper()
    with select.epoll() as poll, select.epoll() as flow:
        console = Console(out, style)
        processes = Processes(poll, f"DAVINCIRUN_RUN_ID={plan.run_id}".encode(), subreaper)
        output = Output(flow, console, messages.warning)

        def on_event(launch: Launch, event: Event) -> None:
            if isinstance(event, WorkerExited) and launch.cause is event and launch.running:
                ended = f"{event.exit} after {report.duration(event.seconds)}"
                messages.error(f"rank {event.rank}: {ended}; stopping the others")

        commands = [
            WorkerCommand(worker.rank, worker.argv, environment(worker, environ), worker.cwd, worker.log_path)
            for worker in plan.workers
        ]
        supervisor = Supervisor(
            commands,
            poll,
            flow,
            processes,
            output,
            [*dict.fromkeys(sinks)],
            wakeup,
            lifeline_fd,
            plan.grace_seconds,
            on_event,
        )
        done = supervisor.run()
        left = [_described(pid) for pid in processes.left()]
        failed = done.cause.rank if isinstance(done.cause, WorkerExited) else -1
        output.finish()
        tail = output.tail(failed, report.TAIL_LINES)
        seconds = time.monotonic() - started
        text = report.summary(done, plan, os.uname().nodename, processes.pids, tail, left, seconds)
        supervisor.show_the_rest()
        if done.cause is not None or messages.is_talkative:
            messages.block(text)
        supervisor.show_the_rest()
        output.close()
        processes.close()
    return exit_status(done)


def _style(options: Options, environ: Mapping[str, str], out: Sink, workers: int) -> Style:
    """Prefixes on a terminal where there is more than one worker, or as asked; colours never but on a terminal."""
    prefix = out.is_terminal and workers > 1 if options.prefix is None else options.prefix
    return Style(prefix, colour=prefix and out.is_terminal and not environ.get("NO_COLOR"), terminal=out.is_terminal)


def _sinks() -> Tuple[Sink, Sink]:
    """Stdout and stderr; one sink for both where they are one file, so that lines of the one don't cut the other's."""
    out = Sink(1)
    return out, out if os.path.sameopenfile(1, 2) else Sink(2)


def _label(environ: Mapping[str, str]) -> str:
    """What marks our lines: the platform's own word where its log viewer looks for that."""
    return "[ModelArts Service Log]" if modelarts.is_modelarts(environ) else "[davincirun] "


def _described(pid: int) -> str:
    """A process that is left, for somebody who has to find out why: its name, its state, where it waits."""
    texts = []
    for what in ("comm", "wchan"):
        try:
            texts.append(files.read(f"/proc/{pid}/{what}").decode("utf-8", "replace").strip())
        except OSError:
            texts.append("?")
    return f"pid {pid} ({texts[0]}), waiting in the kernel at {texts[1]}"
