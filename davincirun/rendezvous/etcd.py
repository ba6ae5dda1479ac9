"""etcd v3 as a store, through the JSON gateway that each etcd serves beside gRPC: the standard library is enough.

All that a launcher writes hangs on its lease, so that nothing of a crashed one stays for longer than that. In keys,
`//` stands before a value's last name, so that a folder can be watched without the folders in it.
"""

from __future__ import annotations

import base64
import http.client
import json
import time
from contextlib import suppress
from typing import Any, Dict, Optional, Sequence, Set, Tuple

from davincirun.rendezvous.liaison import Orders
from davincirun.rendezvous.store import Store, StoreError

PREFIX = "/davincirun"
_CALL_SECONDS = 5.0
_SHORTEST_LEASE_SECONDS = 5
_ENDLESS_SILENCE_LEASE_SECONDS = 60  # where silence is no failure, what a crashed launcher leaves still has to go


class Etcd(Store):
    """The store below `/davincirun/<run>` of an etcd cluster, of which any one member will do."""

    first_pause_seconds = 0.3

    def __init__(self, endpoints: Sequence[Tuple[str, int]], run: str, is_tls: bool, silence_seconds: float) -> None:
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
        self._connection: Optional[http.client.HTTPConnection] = None
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
            with suppress(OSError, http.client.HTTPException, ValueError):
                self._stream = _Stream(self._connected(), folder, self._range(folder), self._revision + 1)
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
        if self._connection is not None:
            self._connection.close()

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
                if self._connection is None:
                    self._connection = self._connected()
                self._connection.request("POST", f"/v3/{what}", json.dumps(request))
                response = self._connection.getresponse()
                answer: Dict[str, Any] = json.loads(response.read().decode("utf-8"))
                if response.status == http.client.OK:
                    self._revision = int(answer.get("header", {}).get("revision", self._revision))
                    return answer
                problem = str(answer.get("message") or answer.get("error") or response.status)
                if "lease not found" in problem:
                    self._lease = None
            except (OSError, http.client.HTTPException, ValueError) as error:
                problem = str(error) or repr(error)
                if self._connection is not None:
                    self._connection.close()
                self._connection = None
                self._turn += 1
        raise StoreError(problem)

    def _connected(self) -> http.client.HTTPConnection:
        host, port = self._endpoints[self._turn % len(self._endpoints)]
        if self._is_tls:
            return http.client.HTTPSConnection(host, port, timeout=_CALL_SECONDS)
        return http.client.HTTPConnection(host, port, timeout=_CALL_SECONDS)

    def _forget_stream(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream = None


class _Stream:
    """etcd's own word that something has changed in a folder."""

    def __init__(
        self, connection: http.client.HTTPConnection, folder: str, key_range: Dict[str, str], start_revision: int
    ) -> None:
        self.folder = folder
        self._connection = connection
        request = {"create_request": {**key_range, "start_revision": str(start_revision)}}
        try:
            connection.request("POST", "/v3/watch", json.dumps(request))
            self._response = connection.getresponse()
            self.fd = self._response.fileno()
            self.read()  # that the watch has been made
        except BaseException:
            connection.close()
            raise

    def read(self) -> bool:
        """Take what has come; what exactly changed is looked up anyway. False: the stream has ended."""
        try:
            return bool(self._response.read1(1 << 16))
        except (OSError, http.client.HTTPException, ValueError):
            return False

    def close(self) -> None:
        self._response.close()
        self._connection.close()


def _prefix(start: str) -> Dict[str, str]:
    """The range of all keys that begin so; "0" follows "/"."""
    return {"key": _encoded(start.encode()), "range_end": _encoded(start[:-1].encode() + b"0")}


def _last(key: str) -> str:
    return _decoded(key).decode("utf-8", "replace").rpartition("//")[2]


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _decoded(text: str) -> bytes:
    return base64.b64decode(text)
