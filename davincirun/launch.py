"""One launch, in reading order: the table, who we are in it, the plan, the workers, the end."""

from __future__ import annotations

import os
import select
import time
from typing import Mapping, Sequence, Tuple

from davincirun import files, modelarts, planning, preparation, report
from davincirun.console import Console, Style
from davincirun.descendants import become_subreaper
from davincirun.errors import PlatformError
from davincirun.lifecycle import Event, Launch, WorkerExited, exit_status
from davincirun.messages import Messages
from davincirun.mpi.choice import is_for_mpirun
from davincirun.nodes import Nodes
from davincirun.options import Options
from davincirun.output import Output
from davincirun.pausing import Pause
from davincirun.plan import LaunchPlan, environment
from davincirun.processes import Processes
from davincirun.sink import Sink
from davincirun.supervise import Supervisor, WorkerCommand
from davincirun.tables import find_table
from davincirun.wakeup import Wakeup


def show_plan(options: Options, environ: Mapping[str, str]) -> int:
    """Print what a launch would do and create nothing; a table that isn't complete is waited for all the same."""
    from davincirun import plan_view

    with Wakeup() as wakeup:
        messages = Messages(Sink(2), _label(environ), options.verbosity)
        if is_for_mpirun(options, environ):
            from davincirun.mpi import engine

            return engine.show_plan(options, environ, messages)
        pause = Pause(wakeup, None)
        with Nodes(options, environ, pause, messages) as nodes:
            if nodes.are_to_be_started:
                from davincirun import bare_metal

                _print(bare_metal.show_plan(options, environ))
                return 0
            names = planning.names(options, environ, nodes.job_id)
            found = find_table(options, environ, names.places, pause, messages, nodes)
            plan = planning.plan(options, environ, names, found)
            _warn(found.notes, messages)
    _print(plan_view.as_json(plan) + "\n" if options.json else plan_view.as_text(plan))
    return 0


def _print(text: str) -> None:
    """Write to stdout: paths and arguments that are no text in its encoding as the bytes that they were given as."""
    rest = memoryview(text.encode("utf-8", "surrogateescape"))
    try:
        while rest:
            rest = rest[os.write(1, rest) :]
    except BrokenPipeError:
        pass  # the reader has seen enough
    except OSError as error:
        raise PlatformError(f"stdout can't be written: {os.strerror(error.errno or 0)}") from None


def launch(options: Options, environ: Mapping[str, str], lifeline_fd: int) -> int:
    """Launch the command on this node; the exit status. `lifeline_fd` reads end-of-file when the guardian is gone."""
    out, err = _sinks()
    with Wakeup() as wakeup:
        messages = Messages(err, _label(environ), options.verbosity)
        if is_for_mpirun(options, environ):
            from davincirun.mpi import engine

            return engine.launch(options, environ, wakeup, lifeline_fd, (out, err), messages)
        pause = Pause(wakeup, lifeline_fd)
        with Nodes(options, environ, pause, messages) as nodes:
            if nodes.are_to_be_started:
                from davincirun import bare_metal

                return bare_metal.launch(options, environ, pause, messages)
            preparation.install_operator(environ, pause)
            names = planning.names(options, environ, nodes.job_id)
            found = find_table(options, environ, names.places, pause, messages, nodes)
            found, environ = preparation.plan_route(found, environ, pause, messages)
            plan = planning.plan(options, environ, names, found)
            _create(plan, messages)
            _warn(found.notes, messages)
            _announce(plan, messages)
            nodes.keep_in_touch(found.servers, found.me, names.job_id, plan.table.path)
            style = _style(options, environ, out, len(plan.workers))
            return _carry_out(plan, environ, wakeup, lifeline_fd, (out, err), style, messages, nodes)


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
    nodes: Nodes,
) -> int:
    started = time.monotonic()
    out, _ = sinks
    subreaper = become_subreaper()
    with select.epoll() as poll, select.epoll() as flow:
        console = Console(out, style)
        processes = Processes(poll, f"DAVINCIRUN_RUN_ID={plan.run_id}".encode(), subreaper)
        output = Output(flow, console, messages.warning)

        def on_event(launch: Launch, event: Event) -> None:
            if launch.cause is event:
                news = report.news(launch, plan, nodes.host)
                if news:
                    messages.error(news)
            nodes.report(launch)

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
            nodes,
        )
        done = nodes.settle(supervisor.run())
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
    return nodes.status_to_end_with(exit_status(done))


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
