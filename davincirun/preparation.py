"""What ModelArts wants done before the workers start, and around the whole launch. Nothing elsewhere."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import Callable, Iterator, Mapping, Tuple

from davincirun import files, modelarts, ranktable
from davincirun.errors import PlatformError, RankTableError
from davincirun.messages import Messages
from davincirun.pausing import Pause
from davincirun.plan import TableFile
from davincirun.tables import Found

_DRIVER_TOOLS = "/usr/local/Ascend/driver/tools"  # slogd and the script for a stopping container are below it


class OperatorFailed(PlatformError):
    """A custom operator could not be installed; the launcher ends with the installer's status."""

    def __init__(self, url: str, status: int) -> None:
        super().__init__(f"operator {url}: its installation ended with status {status}; no worker was started")
        self.exit_status = status


@contextmanager
def platform_services(environ: Mapping[str, str], warn: Callable[[str], None]) -> Iterator[Tuple[int, ...]]:
    """Start slogd, where the driver has one, and the log upload; at the end finish the upload and run the driver's
    script for a stopping container. Gives the pids that aren't the job's. What fails is a warning.
    """
    upload = modelarts.log_upload(environ, os.path.isfile)
    if upload is None and not os.path.exists(_DRIVER_TOOLS):
        yield ()
        return
    from davincirun import modelarts_hooks as hooks

    uploader = None
    try:
        hooks.start_slogd(environ)
        uploader = hooks.start_log_upload(upload, environ) if upload is not None else None
    except PlatformError as error:
        warn(str(error))
    try:
        yield () if uploader is None else (uploader.pid,)
    finally:
        try:
            if uploader is not None:
                hooks.finish_log_upload(uploader)
            hooks.post_stop(environ)
        except PlatformError as error:
            warn(str(error))


def install_operator(environ: Mapping[str, str], pause: Pause) -> None:
    """Install the operator that MA_ALGORITHM_OPERATOR names, if it does; OperatorFailed when that goes wrong."""
    operator = modelarts.operator_archive(environ)
    if operator is not None:
        from davincirun.modelarts_hooks import install_operator as install

        status = install(operator, environ, pause.run)
        if status != 0:
            raise OperatorFailed(operator.url, status)


def plan_route(
    found: Found, environ: Mapping[str, str], pause: Pause, messages: Messages
) -> Tuple[Found, Mapping[str, str]]:
    """The table with its ranks ordered by the network's topology, and the environment with what that adds.

    Only with ROUTE_PLAN; any failure is a warning, and the table stays as it is.
    """
    try:
        wish = modelarts.route_plan(environ)
        if wish is None:
            return found, environ
        from davincirun import modelarts_hooks as hooks

        messages.info(f"route planning: waiting for the topology {wish.topology_path}")
        topology = hooks.await_topology(wish, lambda seconds: pause([], seconds))
        if found.file.data is not None:
            files.write_atomically(found.file.path, found.file.data)
        route = hooks.plan_route(topology, found.file.path, found.me.server_id, environ, run=pause.run)
        table = ranktable.parse(files.read(route.table_path), route.table_path)
        if isinstance(table, ranktable.NotYet):
            raise PlatformError(f"{route.table_path}: {table.reason}")
        cluster = ranktable.to_cluster(table, route.table_path)
    except (PlatformError, RankTableError, OSError) as error:
        messages.warning(f"route planning: {error}; the plain rank table is used")
        return found, environ
    me = found.me._replace(server_id=route.server.server_id, devices=tuple(route.server.devices))
    file = TableFile(route.table_path, None, f"route planning on {found.file.path}")
    planned = found._replace(file=file, world_size=cluster.world_size, me=me, servers=cluster.servers)
    return planned, {**environ, **route.environment}
