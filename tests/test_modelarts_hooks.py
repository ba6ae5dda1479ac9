"""The platform's tools are executables and modules in data/modelarts/fakes; the processes are real."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from davincirun.errors import PlatformError
from davincirun.modelarts import operator_archive
from davincirun.modelarts_hooks import NO_ARCHIVE, install_operator, post_stop, run_command, start_slogd

FAKES = os.path.join(os.path.dirname(__file__), "data", "modelarts", "fakes")


@pytest.fixture
def environ(tmp_path):
    """A launcher's environment in which `python` is this interpreter."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (binaries / "python").chmod(0o755)
    return {"PATH": f"{binaries}:{os.environ['PATH']}"}


def test_a_command_that_dies_of_a_signal_has_status_128_and_more() -> None:
    assert run_command(("sh", "-c", "kill -TERM $$"), os.environ) == 128 + signal.SIGTERM


def test_a_command_that_cannot_be_run_is_named(tmp_path) -> None:
    with pytest.raises(PlatformError, match="no-such-tool: can't be run: No such file"):
        run_command((str(tmp_path / "no-such-tool"),), os.environ)


def test_a_command_that_takes_too_long_is_killed_with_its_children(tmp_path) -> None:
    held = str(tmp_path / "held")
    os.mkfifo(held)
    reader = os.open(held, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(PlatformError, match=r"sh: still running after 0.5 s"):
        run_command(("sh", "-c", f"tail -f /dev/null >{held} & wait"), os.environ, 0.5)
    os.set_blocking(reader, True)
    assert os.read(reader, 1) == b""  # the child's end is closed: it is gone
    os.close(reader)


@pytest.fixture
def archive(tmp_path, environ):
    """What the store holds; the downloader's arguments go to `argv`."""
    shutil.copy(os.path.join(FAKES, "modelarts-downloader.py"), str(tmp_path))
    store = tmp_path / "store"
    store.mkdir()
    environ.update(FAKE_ARCHIVE=str(store), FAKE_DOWNLOADER_ARGV=str(tmp_path / "argv"), DONE=str(tmp_path / "done"))
    return store


def _operator(tmp_path, url="s3://bucket/operator.tar"):
    settings = {"MA_ALGORITHM_OPERATOR": json.dumps({"obs": {"obs_url": url}})}
    return operator_archive(settings, home=str(tmp_path), temporary=str(tmp_path / "tmp"))


def test_the_first_run_file_of_the_archive_is_run(tmp_path, environ, archive) -> None:
    (archive / "a.txt").write_text("no")
    (archive / "b.run").write_text('#!/bin/sh\necho "$0" >"$DONE"\n')
    (archive / "c.run").write_text("#!/bin/sh\nexit 9\n")
    assert install_operator(_operator(tmp_path), environ) == 0
    folder = str(tmp_path / "tmp" / "operator_info")
    assert (tmp_path / "done").read_text() == f"{folder}/b.run\n"
    assert (tmp_path / "argv").read_text().split("\n") == ["-s", "s3://bucket/operator.tar", "-d", folder]
    assert not os.path.exists(folder)


def test_a_folder_in_the_store_is_fetched_recursively(tmp_path, environ, archive) -> None:
    (archive / "b.run").write_text("#!/bin/sh\n")
    assert install_operator(_operator(tmp_path, "s3://bucket/operator/"), environ) == 0
    assert (tmp_path / "argv").read_text().split("\n")[-2:] == ["--skip-creating-dir", "-r"]


@pytest.mark.parametrize(
    ("script", "download_status", "want"),
    [("exit 7", "0", 7), ("kill -KILL $$", "0", 137), ("exit 0", "4", 4), (None, "0", NO_ARCHIVE)],
)
def test_a_failed_installation_gives_its_status_and_leaves_no_folder(
    tmp_path, environ, archive, script, download_status, want
) -> None:
    environ["FAKE_DOWNLOADER_STATUS"] = download_status
    if script is not None:
        (archive / "b.run").write_text(f"#!/bin/sh\n{script}\n")
    assert install_operator(_operator(tmp_path), environ) == want
    assert not os.path.exists(_operator(tmp_path).folder)


def test_a_left_over_operator_folder_is_replaced(tmp_path, environ, archive) -> None:
    folder = tmp_path / "tmp" / "operator_info"
    folder.mkdir(parents=True)
    (folder / "a.run").write_text("#!/bin/sh\nexit 9\n")
    (archive / "b.run").write_text("#!/bin/sh\n")
    assert install_operator(_operator(tmp_path), environ) == 0


def test_the_launcher_can_run_the_operators_commands_itself(tmp_path, environ, archive) -> None:
    commands = []

    def run(argv, environ):
        commands.append(argv[0])
        return 5

    assert install_operator(_operator(tmp_path), environ, run) == 5
    assert commands == ["python"]


def test_an_operator_folder_that_cannot_be_made_is_named(tmp_path, environ) -> None:
    (tmp_path / "tmp").write_text("a file")
    with pytest.raises(PlatformError, match=r"operator s3://bucket/operator.tar: .*Not a directory"):
        install_operator(_operator(tmp_path), environ)


@pytest.fixture
def driver_tools(tmp_path):
    tools = tmp_path / "root" / "usr/local/Ascend/driver/tools"
    (tools / "docker").mkdir(parents=True)
    shutil.copy(os.path.join(FAKES, "slogd"), str(tools / "docker"))
    shutil.copy(os.path.join(FAKES, "docker_stop_post_sys.sh"), str(tools))
    return tools


def test_where_the_driver_has_no_tools_nothing_is_started(tmp_path, environ) -> None:
    assert start_slogd(environ, str(tmp_path)) is None
    assert post_stop(environ, str(tmp_path)) is None


def test_slogd_gets_none_of_our_descriptors_and_is_left_for_the_supervisor_to_reap(
    tmp_path, environ, driver_tools
) -> None:
    environ["FAKE_SLOGD_NOTES"] = str(tmp_path / "notes")
    pid = start_slogd(environ, str(tmp_path / "root"))
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    subprocess.run(["true"], check=True)  # gives subprocess a chance to reap what it started before
    assert os.waitpid(pid, 0) == (pid, 0)
    assert (tmp_path / "notes").read_text().split("\n")[0] == "/dev/null"
    assert (tmp_path / "notes").read_text().split("\n")[2] == "/dev/null"


def test_a_slogd_that_cannot_be_run_is_named(tmp_path, environ, driver_tools) -> None:
    (driver_tools / "docker" / "slogd").write_text("#!/no/such/shell\n")
    with pytest.raises(PlatformError, match="slogd: can't be run"):
        start_slogd(environ, str(tmp_path / "root"))


@pytest.mark.parametrize("status", [0, 3])
def test_the_script_for_the_end_gives_its_status(tmp_path, environ, driver_tools, status) -> None:
    environ["FAKE_POST_STOP"] = str(status)
    assert post_stop(environ, str(tmp_path / "root")) == status


def test_a_script_for_the_end_that_hangs_is_killed(tmp_path, environ, driver_tools) -> None:
    environ["FAKE_POST_STOP"] = "hangs"
    with pytest.raises(PlatformError, match=r"docker_stop_post_sys.sh: still running after 0.2 s"):
        post_stop(environ, str(tmp_path / "root"), seconds=0.2)
