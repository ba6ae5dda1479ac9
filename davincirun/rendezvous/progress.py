"""When a wait for other nodes says that it goes on, what it says, and when it is over."""

from __future__ import annotations

import time

from davincirun.report import duration

_DUE_SECONDS = (1, 10, 60, 300)  # and every five minutes after


class Schedule:
    """One bounded wait."""

    def __init__(self, timeout_seconds: float) -> None:
        self.timeout_seconds = timeout_seconds
        self._started = time.monotonic()
        self._said = 0

    @property
    def waited_seconds(self) -> float:
        return time.monotonic() - self._started

    @property
    def is_over(self) -> bool:
        return self.waited_seconds >= self.timeout_seconds

    @property
    def pause_seconds(self) -> float:
        """Until something is due."""
        return max(min(self._due(), self.timeout_seconds) - self.waited_seconds, 0.0)

    def is_due(self) -> bool:
        """Whether a line is due; then the next one is due later."""
        if self.waited_seconds < self._due():
            return False
        self._said += 1
        return True

    def _due(self) -> float:
        return _DUE_SECONDS[self._said] if self._said < len(_DUE_SECONDS) else _DUE_SECONDS[-1] * (self._said - 2)


def waiting_for(schedule: Schedule, missing: str) -> str:
    return (
        f"waiting for {missing}; {duration(schedule.waited_seconds)} so far, at most"
        f" {duration(schedule.timeout_seconds)} (--rendezvous-timeout)"
    )


def timed_out(schedule: Schedule, missing: str) -> str:
    return (
        f"after {duration(schedule.timeout_seconds)} there is nothing of {missing}: was the command started there, and"
        " can the nodes reach each other? --rendezvous-timeout waits longer"
    )
