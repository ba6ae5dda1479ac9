"""The uploader is a real process; the moxing that it imports is the one in data/modelarts/fakes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zipfile

import pytest

from davincirun import modelarts_hooks
from davincirun.log_upload import NO_MOXING
from davincirun.modelarts import LogUpload
from davincirun.modelarts_hooks import finish_log_upload, start_log_upload

FAKES = os.path.join(os.path.dirname(__file__), "data", "modelarts", "fakes")
PACKAGE = os.path.dirname(modelarts_hooks.__file__)


@pytest.fixture
def environ():
    return {"PATH": os.environ["PATH"], "PYTHONPATH": FAKES}


@pytest.fixture
def upload(tmp_path):
    (tmp_path / "stdout.log").write_text("one\n")
    return LogUpload(str(tmp_path / "stdout.log"), str(tmp_path / "store.log"))


def test_the_last_lines_are_copied_at_the_end(tmp_path, environ, upload) -> None:
    uploader = start_log_upload(upload, environ)
    (tmp_path / "stdout.log").write_text("one\ntwo\n")
    assert finish_log_upload(uploader) == 0
    assert (tmp_path / "store.log").read_text() == "one\ntwo\n"


def test_the_log_is_copied_again_and_again(tmp_path, environ, upload) -> None:
    os.mkfifo(str(tmp_path / "copied"))
    environ["FAKE_MOXING_COPIED"] = str(tmp_path / "copied")
    uploader = start_log_upload(upload, environ, interval_seconds=0.01)
    for _ in range(3):
        with open(str(tmp_path / "copied")) as copied:
            assert "copied\n" in copied.read()
    assert (tmp_path / "store.log").read_text() == "one\n"
    reader = os.open(str(tmp_path / "copied"), os.O_RDWR)  # so that the remaining copies don't wait for us
    assert finish_log_upload(uploader) == 0
    os.close(reader)


def test_the_last_copy_is_made_when_the_launcher_is_gone(tmp_path, environ, upload) -> None:
    uploader = start_log_upload(upload, environ)
    uploader.channel.close()
    assert os.waitpid(uploader.pid, 0)[1] == 0
    assert (tmp_path / "store.log").read_text() == "one\n"


@pytest.mark.parametrize(("behaviour", "want"), [("hangs", 137), ("fails", 1)])
def test_an_upload_that_goes_wrong_ends_within_its_bound(environ, upload, behaviour, want) -> None:
    environ["FAKE_MOXING"] = behaviour
    uploader = start_log_upload(upload, environ)
    assert finish_log_upload(uploader, seconds=0.5 if behaviour == "hangs" else 60) == want


def test_a_copy_that_fails_is_said_once_and_tried_again(tmp_path, environ, upload) -> None:
    program = (
        "import os, sys; from davincirun.modelarts import LogUpload; from davincirun.modelarts_hooks import *;"
        "uploader = start_log_upload(LogUpload(*sys.argv[1:]), os.environ, 0.01);"
        "sys.stdin.readline();"
        "print(finish_log_upload(uploader))"
    )
    environ.update(FAKE_MOXING="fails", PYTHONPATH=f"{FAKES}:{os.path.dirname(PACKAGE)}")
    command = [sys.executable, "-c", program, *upload]
    with subprocess.Popen(command, env=environ, stdin=-1, stdout=-1, stderr=-1, universal_newlines=True) as launcher:
        first = launcher.stderr.readline()
        output, rest = launcher.communicate("\n", timeout=60)
    assert first == f"davincirun: {upload.target}: RuntimeError: the bucket is gone; trying again\n"
    assert rest == f"davincirun: {upload.target}: RuntimeError: the bucket is gone\n"
    assert output == "1\n"


def test_without_moxing_there_is_nothing_to_do(environ, upload, capfd) -> None:
    del environ["PYTHONPATH"]
    assert finish_log_upload(start_log_upload(upload, environ)) == NO_MOXING
    assert capfd.readouterr() == ("", "")


def test_an_uploader_reaped_elsewhere_has_no_status(environ, upload) -> None:
    uploader = start_log_upload(upload, environ)
    os.kill(uploader.pid, signal.SIGKILL)
    os.waitpid(uploader.pid, 0)
    assert finish_log_upload(uploader) is None


def test_the_upload_works_from_a_zip_file(tmp_path, environ, upload) -> None:
    bundle = tmp_path / "davincirun.py"
    with zipfile.ZipFile(str(bundle), "w") as file:
        for name in os.listdir(PACKAGE):
            if name.endswith(".py"):
                file.write(os.path.join(PACKAGE, name), f"davincirun/{name}")
        file.writestr(
            "__main__.py",
            "import os, sys\n"
            "from davincirun.modelarts import LogUpload\n"
            "from davincirun.modelarts_hooks import finish_log_upload, start_log_upload\n"
            "sys.exit(finish_log_upload(start_log_upload(LogUpload(*sys.argv[1:]), os.environ)))\n",
        )
    assert subprocess.run([sys.executable, str(bundle), *upload], env=environ, cwd=str(tmp_path)).returncode == 0
    assert (tmp_path / "store.log").read_text() == "one\n"


def test_modules_in_the_current_directory_do_not_shadow_those_of_the_uploader(
    tmp_path, environ, upload, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shutil.py").write_text("raise SystemExit('shadowed')")
    assert finish_log_upload(start_log_upload(upload, environ)) == 0
