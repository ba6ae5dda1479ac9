"""A real etcd on this machine, which can be stopped and started again with its data. Needs Debian's etcd-server.

With TLS, openssl too.
"""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from importlib.util import find_spec
from types import TracebackType
from typing import Optional, Type

import pytest

from helpers.nodes import free_port

needs_etcd = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("etcd") is None or find_spec("etcd3gw") is None, reason="etcd isn't installed"),
]
_START_SECONDS = 30.0


class Etcd:
    """One member; entered, it answers."""

    def __init__(self, folder: str, is_tls: bool = False) -> None:
        self._folder = folder
        self.certificate = os.path.join(folder, "certificate.pem")  # its own, where there is one
        self._key = os.path.join(folder, "key.pem")
        self._scheme = "https" if is_tls else "http"
        self.port = free_port()
        self._peer = f"http://127.0.0.1:{free_port()}"
        self._process: "Optional[subprocess.Popen[bytes]]" = None

    @property
    def where(self) -> str:
        return f"{'etcds' if self._scheme == 'https' else 'etcd'}://127.0.0.1:{self.port}"

    def start(self) -> None:
        client = f"{self._scheme}://127.0.0.1:{self.port}"
        argv = ["etcd", "--data-dir", os.path.join(self._folder, "data")]
        argv += ["--listen-client-urls", client, "--advertise-client-urls", client]
        argv += ["--listen-peer-urls", self._peer, "--initial-advertise-peer-urls", self._peer]
        argv += ["--initial-cluster", f"default={self._peer}"]
        if self._scheme == "https":
            self._certify()
            argv += ["--cert-file", self.certificate, "--key-file", self._key]
        with open(os.path.join(self._folder, "log"), "ab") as log:
            self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            assert time.monotonic() < deadline, "etcd doesn't come up"
            time.sleep(0.05)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Etcd:
        self.start()
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        self.stop()

    def _certify(self) -> None:
        new = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=etcd"]
        new += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", self._key, "-out", self.certificate]
        subprocess.run(new, stderr=subprocess.DEVNULL, check=True)

    def _answers(self) -> bool:
        trust = ssl.create_default_context(cafile=self.certificate) if self._scheme == "https" else None
        try:
            url = f"{self._scheme}://127.0.0.1:{self.port}/health"
            with urllib.request.urlopen(url, timeout=1, context=trust) as answer:
                return b"true" in answer.read()
        except (urllib.error.URLError, OSError):
            return False
