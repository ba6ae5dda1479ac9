"""Several nodes on one Linux machine, for tests that need real ones. Needs root, iproute2, util-linux and sshd.

Each node has its own network, host name, processes, IPC, /tmp, /dev/shm, /run, ~/.ssh and /etc/hosts; what else is on
the file system they share. Nothing has a name outside: namespaces live as long as the processes in them, and these
end with the test. A bridge in a namespace of its own joins the nodes; the machine's network is neither seen nor
touched.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from types import TracebackType
from typing import Dict, List, Mapping, Optional, Sequence, Type

from helpers.launcher import ROOT

SSH_PORT = 2222
_WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")  # ends with the test, however that ends
_NEEDED = ("ip", "nsenter", "unshare", "setpriv", "ssh", "ssh-keygen", "sshd")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_COVERED = ("/tmp/", "/run/")  # each node has its own

_SWITCH = "ip link add br0 type bridge && ip link set br0 up && echo ready && exec sleep infinity"


def missing() -> List[str]:
    """What this machine lacks for a cluster; empty when it can have one."""
    if os.geteuid() != 0:
        return ["root"]
    return [name for name in _NEEDED if shutil.which(name, path=_PATH) is None]


def _outermost(paths: Sequence[str]) -> List[str]:
    """`paths` without those that lie in one another."""
    real = sorted({os.path.realpath(path) for path in paths})
    return [path for path in real if not any(path.startswith(f"{other}/") for other in real)]


class Cluster:
    """Nodes node0, node1 ...; entered, they are up, left, nothing remains."""

    def __init__(self, folder: str, count: int, shared: Sequence[str] = ()) -> None:
        self.folder = folder  # below /tmp is fine: it is shared
        self.count = count
        self.names = [f"node{index}" for index in range(count)]
        wanted = [ROOT, sys.prefix, *os.environ.get("DAVINCIRUN_TEST_SHARED", "").split(":"), *shared]
        self._shared = _outermost([folder, *(path for path in wanted if path.startswith(_COVERED))])
        self._holders: List["subprocess.Popen[bytes]"] = []
        self._inits: Dict[int, int] = {}
        self._started: List["subprocess.Popen[bytes]"] = []

    def __enter__(self) -> Cluster:
        try:
            self._make_files()
            self._hold(["unshare", "--net", "--", "sh", "-c", _SWITCH])
            for index in range(self.count):
                self._add_node(index)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        for process in [*self._started, *reversed(self._holders)]:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()

    def start(
        self, index: int, argv: Sequence[str], env: Optional[Mapping[str, str]] = None, output: Optional[str] = None
    ) -> "subprocess.Popen[bytes]":
        """Start `argv` on a node in a fresh environment; stdout and stderr go into the file `output`."""
        clean = {"PATH": _PATH, "HOME": "/root", "LANG": "C.UTF-8", **(env or {})}
        with open(output or os.devnull, "ab") as file:
            process = subprocess.Popen(
                [*self._inside(index), *argv], env=clean, stdin=subprocess.DEVNULL, stdout=file, stderr=file
            )
        self._started.append(process)
        return process

    def start_sshd(self, index: int) -> None:
        """The node's ssh server; returns when it answers."""
        self.start(index, self.sshd_command(index), output=os.path.join(self.folder, f"sshd{index}.log"))
        deadline = time.monotonic() + 10
        while self._call([*self._inside(index), "bash", "-c", f": < /dev/tcp/127.0.0.1/{SSH_PORT}"]) != 0:
            if time.monotonic() > deadline:
                raise RuntimeError(f"the sshd of node {index} doesn't come up: see {self.folder}/sshd{index}.log")

    def sshd_command(self, index: int) -> List[str]:
        return ["/usr/sbin/sshd", "-D", "-e", "-f", self.sshd_config, "-p", str(SSH_PORT)]

    @property
    def sshd_config(self) -> str:
        return os.path.join(self.folder, "sshd_config")

    def signal(self, process: "subprocess.Popen[bytes]", signum: int) -> None:
        """Send a signal to what `start` started: nsenter stands before it and passes none on."""
        inner = _children(process.pid)
        os.kill(inner[0] if inner else process.pid, signum)

    def kill(self, index: int) -> None:
        """The container ends: everything on the node is killed, and its address goes dark."""
        os.kill(self._inits[index], signal.SIGKILL)
        self.cut(index)

    def cut(self, index: int) -> None:
        """Pull the node's network cable: its peers hear nothing any more."""
        self._on_switch("ip", "link", "set", f"p{index}", "down")

    def processes(self, index: int) -> Dict[int, str]:
        """What runs on the node: pid outside and command line, PID 1 left out."""
        space = os.stat(f"/proc/{self._inits[index]}/ns/pid").st_ino
        found = {}
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.stat(f"/proc/{name}/ns/pid").st_ino == space and int(name) != self._inits[index]:
                    with open(f"/proc/{name}/cmdline", "rb") as file:
                        found[int(name)] = file.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
            except OSError:
                continue  # it has just ended
        return {pid: line for pid, line in found.items() if line}  # zombies have none

    def _make_files(self) -> None:
        ssh = os.path.join(self.folder, "ssh")
        os.makedirs(ssh, 0o700)
        for path in (os.path.join(ssh, "id_ed25519"), os.path.join(self.folder, "host_key")):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
        shutil.copy(os.path.join(ssh, "id_ed25519.pub"), os.path.join(ssh, "authorized_keys"))
        self._write(
            "ssh/config", "Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n"
        )
        self._write(
            "sshd_config",
            f"HostKey {self.folder}/host_key\nPidFile none\nAuthorizedKeysFile /root/.ssh/authorized_keys\n"
            "StrictModes no\nUsePAM no\nUseDNS no\nPermitRootLogin yes\nPasswordAuthentication no\nMaxStartups 200\n",
        )
        names = "".join(f"{_address(index)} {name} {name}.lab\n" for index, name in enumerate(self.names))
        self._write("hosts", "127.0.0.1 localhost\n" + names)
        self._write("empty", "")

    def _write(self, name: str, text: str) -> None:
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def _add_node(self, index: int) -> None:
        spaces = ["--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
        init = os.path.join(os.path.dirname(os.path.abspath(__file__)), "node_init.sh")
        python = os.path.realpath(sys.executable)  # a venv below /tmp is out of sight
        holder = self._hold(
            ["unshare", *spaces, "--", "bash", init, self.names[index], self.folder, python, *self._shared]
        )
        self._inits[index] = _children(holder.pid)[0]
        self._on_switch(
            "ip", "link", "add", f"p{index}", "type", "veth", "peer", "eth0", "netns", str(self._inits[index])
        )
        self._on_switch("ip", "link", "set", f"p{index}", "master", "br0", "up")
        for words in (
            ("link", "set", "lo", "up"),
            ("addr", "add", f"{_address(index)}/24", "dev", "eth0"),
            ("-6", "addr", "add", f"{ipv6_address(index)}/64", "dev", "eth0", "nodad"),
            ("link", "set", "eth0", "up"),
        ):
            subprocess.run(["nsenter", "-t", str(self._inits[index]), "--net", "ip", *words], check=True)

    def _hold(self, argv: Sequence[str]) -> "subprocess.Popen[bytes]":
        holder = subprocess.Popen(
            [*_WITH_US, *argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._holders.append(holder)
        assert holder.stdout is not None
        if holder.stdout.readline() != b"ready\n":
            raise RuntimeError(f"{argv[0]}: namespaces can't be made here")
        return holder

    def _inside(self, index: int) -> List[str]:
        spaces = ["--uts", "--ipc", "--net", "--mount", "--pid"]
        return [*_WITH_US, "nsenter", "-t", str(self._inits[index]), *spaces, f"--wdns={self.folder}", "--"]

    def _on_switch(self, *argv: str) -> None:
        subprocess.run(["nsenter", "-t", str(self._holders[0].pid), "--net", *argv], check=True)

    def _call(self, argv: Sequence[str]) -> int:
        return subprocess.call(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def ipv6_address(index: int) -> str:
    return f"fd91::{index + 1:x}"


def _address(index: int) -> str:
    return f"10.91.0.{index + 1}"


def _children(pid: int) -> List[int]:
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]
