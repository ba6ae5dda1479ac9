"""What a shared directory and etcd have in common: small values by name, in folders."""

from __future__ import annotations

from typing import Dict, Optional, Set

from davincirun.rendezvous.liaison import Orders


class StoreError(Exception):
    """The store can't be reached, or used; `is_final`: waiting won't help."""

    def __init__(self, problem: str, is_final: bool = False) -> None:
        super().__init__(problem)
        self.is_final = is_final


class Store:
    """Small values by name, in folders. Every method may raise StoreError."""

    first_pause_seconds = 0.02  # between looks, which grow longer

    @property
    def look_seconds(self) -> float:
        """The longest pause between looks: how old news may get, where nothing tells of them."""
        return 1.0

    def create(self, name: str, value: bytes) -> bool:
        """Set `name`, which no value may have yet; False: it has one."""
        raise NotImplementedError

    def put(self, name: str, value: bytes) -> None:
        """Set `name`, whatever it was. A reader sees the old value or the new one, whole."""
        raise NotImplementedError

    def get(self, name: str) -> Optional[bytes]:
        """The value of `name` as it is now, past all caches."""
        raise NotImplementedError

    def news_in(self, folder: str, are_final: bool = False) -> Dict[str, bytes]:
        """The values right in `folder` that are new or have changed since the last call for it, by their last name.

        Those of a folder that `are_final` never change once they are there.
        """
        raise NotImplementedError

    def names_in(self, folder: str) -> Set[str]:
        """The last names of the values right in `folder` now."""
        raise NotImplementedError

    def wait(self, folder: str, orders: Orders, seconds: float) -> None:
        """Return when something may have changed in `folder`, an order is there, or the time is over."""
        raise NotImplementedError

    def remove(self, folder: str) -> None:
        """Forget all below `folder`; the name itself too."""
        raise NotImplementedError

    def stay(self) -> None:
        """Called often: for stores that forget who isn't heard of."""

    def close(self) -> None:
        """Let go of connections and descriptors."""
