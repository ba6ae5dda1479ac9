"""What a wait for other nodes says."""

from __future__ import annotations

from davincirun.pausing import Schedule
from davincirun.report import duration


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
