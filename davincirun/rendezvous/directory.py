"""A directory that all nodes share, as a store: one file a value, complete before it is visible.

Safe on NFS: no locks; a new value is a new file that is renamed over the old one; creation is a hard link, which one
alone gets. An NFS client believes for up to a minute that a name it has once missed isn't there, unless it opens the
folder anew, so a folder is always listed before a name in it is looked up. inotify tells of this machine's own
changes only; it merely saves time.
"""

from __future__ import annotations

import errno
import os
import shutil
from typing import Dict, List, Optional, Set, Tuple

from davincirun import files
from davincirun.rendezvous.liaison import Orders
from davincirun.rendezvous.store import Store, StoreError

_FINAL = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.ENOSPC, errno.EDQUOT)


class Directory(Store):
    """The store in `path`, which is made where it is missing."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._seen: Dict[str, Dict[str, Tuple[int, int]]] = {}  # by folder, name: inode and time of change
        self._own = os.urandom(8).hex()  # containers may share host name and pid
        self._count = 0
        self._watch_fd: Optional[int] = None
        self._watched = ""
        self._blind_seconds = 0.0  # how long to wait next without a watch

    def __str__(self) -> str:
        return f"the shared directory {self._path}"

    def create(self, name: str, value: bytes) -> bool:
        try:
            temporary = self._write(name, value)
            try:
                os.link(temporary, self._of(name))
            except FileExistsError:
                return False
            except OSError:  # a file system without hard links
                return self._create_exclusively(name, value)
            finally:
                os.unlink(temporary)
        except OSError as error:
            raise self._error(error) from None
        return True

    def put(self, name: str, value: bytes) -> None:
        try:
            os.replace(self._write(name, value), self._of(name))
        except OSError as error:
            raise self._error(error) from None

    def get(self, name: str) -> Optional[bytes]:
        folder, _, last = name.rpartition("/")
        try:
            return files.read(self._of(name)) if last in self._names(folder) else None
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._error(error) from None

    def news_in(self, folder: str, are_final: bool = False) -> Dict[str, bytes]:
        seen = self._seen.setdefault(folder, {})
        news = {}
        try:
            for name in self._names(folder):
                if are_final and name in seen:
                    continue
                path = self._of(f"{folder}/{name}")
                try:
                    status = os.stat(path)
                    mark = (status.st_ino, status.st_mtime_ns)
                    if seen.get(name) == mark or os.path.isdir(path):
                        continue
                    news[name] = files.read(path)
                    seen[name] = mark
                except FileNotFoundError:
                    continue
        except OSError as error:
            raise self._error(error) from None
        return news

    def names_in(self, folder: str) -> Set[str]:
        try:
            return set(self._names(folder))
        except OSError as error:
            raise self._error(error) from None

    def wait(self, folder: str, orders: Orders, seconds: float) -> None:
        if self._watched != folder:
            self._forget_watch()
            self._watched = folder
            self._blind_seconds = self.first_pause_seconds
        if self._watch_fd is None:
            self._watch_fd = files.watch(self._of(folder))
            if self._watch_fd is None:  # the folder isn't there yet, or the machine has no watch to spare
                seconds = min(seconds, self._blind_seconds)
                self._blind_seconds *= 1.5
            else:
                seconds = min(seconds, 0.01)  # something may have come between the last look and the watch
        orders.wait([] if self._watch_fd is None else [self._watch_fd], seconds)
        if self._watch_fd is not None:
            files.forget_events(self._watch_fd)

    def remove(self, folder: str) -> None:
        path = self._of(folder)
        try:
            if os.path.isdir(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise self._error(error) from None

    def close(self) -> None:
        self._forget_watch()

    def _of(self, name: str) -> str:
        return os.path.join(self._path, name)

    def _names(self, folder: str) -> List[str]:
        try:
            return [name for name in os.listdir(self._of(folder)) if not name.endswith(".tmp")]
        except FileNotFoundError:
            return []

    def _write(self, name: str, value: bytes) -> str:
        path = self._of(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._count += 1
        temporary = f"{path}.{self._own}.{self._count}.tmp"
        with open(temporary, "wb") as file:
            file.write(value)
        return temporary

    def _create_exclusively(self, name: str, value: bytes) -> bool:
        try:
            fd = os.open(self._of(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            return False
        with os.fdopen(fd, "wb") as file:
            file.write(value)
        return True

    def _error(self, error: OSError) -> StoreError:
        return StoreError(os.strerror(error.errno or 0), error.errno in _FINAL)

    def _forget_watch(self) -> None:
        if self._watch_fd is not None:
            os.close(self._watch_fd)
            self._watch_fd = None
