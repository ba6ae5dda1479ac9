"""etcd v3 as a store, with the client etcd3gw (extra `etcd`), which speaks to the JSON gateway of each etcd.

All that a launcher writes hangs on its lease, so that nothing of a crashed one stays for longer than that. In keys,
`//` stands before a value's last name, so that a folder can be watched without the folders in it.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import time
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Dict, Optional, Sequence, Set, Tuple, Type

from davincirun.errors import UsageError
from davincirun.rendezvous.liaison import Orders
from davincirun.rendezvous.store import Store, StoreError

PREFIX = "/davincirun"
_CALL_SECONDS = 5.0
_SHORTEST_LEASE_SECONDS = 5
_ENDLESS_SILENCE_LEASE_SECONDS = 60  # where silence is no failure, what a crashed launcher leaves still has to go


class Etcd(Store):
    """The store below `/davincirun/<run>` of an etcd cluster, of which any one member will do.

    UsageError where the client isn't installed.
    """

    first_pause_seconds = 0.3

    def __init__(self, endpoints: Sequence[Tuple[str, int]], run: str, is_tls: bool, silence_seconds: float) -> None:
        if find_spec("etcd3gw") is None:
            raise UsageError("--rendezvous etcd://… needs the Python client: pip install etcd3gw, or davincirun[etcd]")
        self._endpoints = tuple(endpoints)
        self._turn = 0
        self._run = run
        self._is_tls = is_tls
        self._lease_seconds = max(int(silence_seconds or _ENDLESS_SILENCE_LEASE_SECONDS), _SHORTEST_LEASE_SECONDS)
        self._lease: Optional[str] = None
        self._next_stay = 0.0
        self._own: Dict[str, bytes] = {}  # what hangs on the lease
        self._revisions: Dict[str, int] = {}  # by folder: up to which its news have been told
        self._revision = 0  # of the last answer
        self._client: Any = None  # of the member whose turn it is
        self._stream: Optional[_Stream] = None

    @property
    def look_seconds(self) -> float:
        return super().look_seconds if self._stream is None else self._lease_seconds / 3

    def __str__(self) -> str:
        return "etcd at " + ", ".join(f"{host}:{port}" for host, port in self._endpoints)

    def create(self, name: str, value: bytes) -> bool:
        key = self._key(name)
        absent = {"key": key, "target": "VERSION", "result": "EQUAL", "version": "0"}
        done = self._call("kv/txn", {"compare": [absent], "success": [{"request_put": self._put_request(name, value)}]})
        if done.get("succeeded"):
            self._own[name] = value
        return bool(done.get("succeeded"))

    def put(self, name: str, value: bytes) -> None:
        self._call("kv/put", self._put_request(name, value))
        self._own[name] = value

    def get(self, name: str) -> Optional[bytes]:
        found = self._call("kv/range", {"key": self._key(name)}).get("kvs")
        return _decoded(found[0].get("value", "")) if found else None

    def news_in(self, folder: str, are_final: bool = False) -> Dict[str, bytes]:
        since = self._revisions.get(folder, 0)
        found = self._call("kv/range", {**self._range(folder), "min_mod_revision": str(since + 1)})
        self._revisions[folder] = self._revision
        return {_last(pair["key"]): _decoded(pair.get("value", "")) for pair in found.get("kvs", ())}

    def names_in(self, folder: str) -> Set[str]:
        found = self._call("kv/range", {**self._range(folder), "keys_only": True})
        return {_last(pair["key"]) for pair in found.get("kvs", ())}

    def wait(self, folder: str, orders: Orders, seconds: float) -> None:
        if self._stream is not None and self._stream.folder != folder:
            self._forget_stream()
        if self._stream is None and folder:  # looking for a leader, all would be told of each of its beats
            with suppress(*_troubles()):
                self._stream = _Stream(self._member(), folder, self._range(folder), self._revision + 1)
        if self._stream is None:
            orders.wait([], seconds)
        elif orders.wait([self._stream.fd], seconds) and not self._stream.read():
            self._forget_stream()

    def remove(self, folder: str) -> None:
        self._own = {name: value for name, value in self._own.items() if name != folder}
        self._call("kv/deleterange", {"key": self._key(folder)})
        self._call("kv/deleterange", _prefix(f"{self._path(folder)}/"))

    def stay(self) -> None:
        if self._lease is None or time.monotonic() < self._next_stay:
            return
        self._next_stay = time.monotonic() + self._lease_seconds / 3
        answer = self._call("lease/keepalive", {"ID": self._lease})
        if int(answer.get("result", answer).get("TTL", 0)) <= 0:  # etcd was away for too long, and forgot us
            self._lease = None
            for name, value in list(self._own.items()):
                self.put(name, value)

    def close(self) -> None:
        """The lease is left to run out: what we said last is still to be read."""
        self._forget_stream()
        self._leave_member()

    def _put_request(self, name: str, value: bytes) -> Dict[str, Any]:
        if self._lease is None:
            self._lease = str(self._call("lease/grant", {"TTL": str(self._lease_seconds)})["ID"])
        return {"key": self._key(name), "value": _encoded(value), "lease": self._lease}

    def _key(self, name: str) -> str:
        folder, _, last = name.rpartition("/")
        return _encoded(f"{self._path(folder)}//{last}".encode())

    def _range(self, folder: str) -> Dict[str, str]:
        return _prefix(f"{self._path(folder)}//")

    def _path(self, folder: str) -> str:
        return f"{PREFIX}/{self._run}" + (f"/{folder}" if folder else "")

    def _call(self, what: str, request: Dict[str, Any]) -> Dict[str, Any]:
        """One request, tried at each member in turn; StoreError when none answers."""
        problem = ""
        for _ in range(len(self._endpoints) + 1):  # once more than there are: a kept connection may have been closed
            try:
                client = self._member()
                answer: Dict[str, Any] = client.post(client.get_url(what), json=request)
                self._revision = int(answer.get("header", {}).get("revision", self._revision))
                return answer
            except _troubles() as error:
                problem = _words(error)
                if "lease not found" in problem:
                    self._lease = None
                else:
                    self._leave_member()
                    self._turn += 1
        raise StoreError(problem)

    def _member(self) -> Any:
        if self._client is None:
            host, port = self._endpoints[self._turn % len(self._endpoints)]
            self._client = _client(host, port, self._is_tls)
        return self._client

    def _leave_member(self) -> None:
        if self._client is not None:
            self._client.session.close()
        self._client = None

    def _forget_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream = None


class _Stream:
    """etcd's own word that something has changed in a folder.

    The client's own watch isn't used: it has a thread, which would keep a launcher from ending while etcd is silent.
    """

    def __init__(self, client: Any, folder: str, key_range: Dict[str, str], start_revision: int) -> None:
        self.folder = folder
        request = {"create_request": {**key_range, "start_revision": str(start_revision)}}
        self._response = client.session.post(client.get_url("watch"), json=request, stream=True)
        self._chunks = self._response.iter_content(chunk_size=None)
        self.fd = self._response.raw.fileno()
        if not self.read():  # that the watch has been made
            self.close()
            raise OSError("the watch has ended")

    def read(self) -> bool:
        """Take what has come; what exactly changed is looked up anyway. False: the stream has ended."""
        try:
            return bool(next(self._chunks, b""))
        except _troubles():
            return False

    def close(self) -> None:
        self._response.close()


def _client(host: str, port: int, is_tls: bool) -> Any:
    """A client of one member, which trusts whom this machine trusts, and gives up on a silent one."""
    client = import_module("etcd3gw").Etcd3Client(
        host, port, "https" if is_tls else "http", timeout=_CALL_SECONDS, api_path="/v3/"
    )
    client.session.trust_env = False  # a cluster's proxies lead out of it
    paths = ssl.get_default_verify_paths()
    client.session.verify = paths.cafile or paths.capath or True
    client.session.request = partial(client.session.request, timeout=_CALL_SECONDS)  # its 1.0, of Python 3.7, has none
    return client


def _troubles() -> Tuple[Type[Exception], ...]:
    """What calls raise when a member can't be reached, or doesn't do as it is told."""
    return (import_module("etcd3gw.exceptions").Etcd3Exception, OSError, ValueError)


def _words(error: Exception) -> str:
    """What etcd says is wrong, or the system, in a few words: the client's own go through all its layers."""
    text = str(getattr(error, "detail_text", None) or error)
    with suppress(ValueError, AttributeError):
        answer = json.loads(text)
        return str(answer.get("message") or answer.get("error") or text)
    if "timed out" in text:
        return f"no answer within {_CALL_SECONDS:.0f} s"
    from_system = re.search(r"\[(?:Errno|SSL)[^]]*\] ([^'\"()]+)", text)
    return from_system.group(1).strip() if from_system else text


def _prefix(start: str) -> Dict[str, str]:
    """The range of all keys that begin so; "0" follows "/"."""
    return {"key": _encoded(start.encode()), "range_end": _encoded(start[:-1].encode() + b"0")}


def _last(key: str) -> str:
    return _decoded(key).decode("utf-8", "replace").rpartition("//")[2]


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _decoded(text: str) -> bytes:
    return base64.b64decode(text)
