"""The launcher's one line to the other nodes: a thread that holds the meeting, and two pipes.

The thread waits for the other nodes, whose silence, name services and file systems may block it for long; the
launcher itself never waits for any of them. It sees one descriptor, readable when there is news.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from contextlib import suppress
from typing import Callable, Deque, List, Optional, Sequence

from davincirun.rendezvous.agreement import Agreement, RendezvousError
from davincirun.rendezvous.news import Done, Left, News, Order, Refused

Tell = Callable[[News], None]


class Leave(Exception):
    """The launcher gives up before there is an agreement."""


class Orders:
    """What the launcher wants of the meeting; `fd` is readable when there is something new."""

    def __init__(self) -> None:
        self.fd, self._write_fd = os.pipe()
        self._queue: Deque[Order] = deque()

    def give(self, order: Order) -> None:
        self._queue.append(order)
        os.write(self._write_fd, b".")

    def take(self) -> List[Order]:
        """All orders since the last call."""
        if self._queue or select.select([self.fd], [], [], 0)[0]:
            os.read(self.fd, 4096)
        orders = []
        while self._queue:
            orders.append(self._queue.popleft())
        return orders

    def close(self) -> None:
        os.close(self.fd)
        os.close(self._write_fd)

    def wait(self, fds: Sequence[int], seconds: float) -> List[int]:
        """Those of `fds` that are readable; an order ends the wait too, and isn't taken."""
        poll = select.poll()  # select(2) can't count beyond descriptor 1,023
        for fd in (self.fd, *fds):
            poll.register(fd, select.POLLIN)
        return [fd for fd, _ in poll.poll(max(seconds, 0) * 1000) if fd != self.fd]


class Meeting:
    """How the launchers of a job find together, and hear of each other after. One subclass per way.

    All methods are called in the liaison's thread, in this order, each once.
    """

    def put(self, orders: Orders) -> None:
        """Lay down this node's contribution. RendezvousError when it is refused."""
        raise NotImplementedError

    def wait_for_all(self, orders: Orders, tell: Tell) -> Optional[Agreement]:
        """The agreement, once all have come; None where only liveness is wanted. RendezvousError, Leave."""
        raise NotImplementedError

    def watch(self, orders: Orders, tell: Tell) -> None:
        """Report the first failure of any node to all; return when it's over for us (`Done`) and we may go."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of everything; called on every path."""
        raise NotImplementedError


class Liaison:
    """A meeting, seen from the launcher."""

    def __init__(self, meeting: Meeting) -> None:
        self.fd, self._write_fd = os.pipe()
        os.set_blocking(self.fd, False)
        self._news: Deque[News] = deque()
        self._orders = Orders()
        self._meeting = meeting
        self._thread = threading.Thread(target=self._attend, name="davincirun-liaison", daemon=True)
        self._thread.start()

    def take(self) -> List[News]:
        """All news since the last call."""
        with suppress(BlockingIOError):
            os.read(self.fd, 4096)
        news = []
        while self._news:
            news.append(self._news.popleft())
        return news

    def give(self, order: Order) -> None:
        self._orders.give(order)

    def leave(self, seconds: float) -> None:
        """Take leave, for at most so long: for when nobody listens to news any more."""
        self.give(Done())
        self._thread.join(seconds)

    def close(self) -> None:
        """Close the pipes, once the thread has ended; a launcher that is about to exit needn't."""
        if not self._thread.is_alive():
            self._orders.close()
            os.close(self.fd)
            os.close(self._write_fd)

    def _attend(self) -> None:
        try:
            self._meeting.put(self._orders)
            agreement = self._meeting.wait_for_all(self._orders, self._tell)
            if agreement is not None:
                self._tell(agreement)
            self._meeting.watch(self._orders, self._tell)
        except RendezvousError as error:
            self._tell(Refused(str(error)))
        except Leave:
            pass
        finally:  # after a bug of ours too: it must neither leave the launcher waiting, nor end a running job
            self._meeting.close()
            self._tell(Left())

    def _tell(self, news: News) -> None:
        self._news.append(news)
        os.write(self._write_fd, b".")
