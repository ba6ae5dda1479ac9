"""The life of a launch: what each event leads to, and what holds for every history of two workers."""

from __future__ import annotations

import signal
from typing import Iterator, List, Tuple

import pytest

from davincirun.lifecycle import (
    DONE,
    KILL_PATIENCE_SECONDS,
    KILLING,
    RUNNING,
    STOPPING,
    Action,
    DeadlinePassed,
    Event,
    Exit,
    GuardianDied,
    Kill,
    Launch,
    NothingLeft,
    PassOn,
    Resume,
    SetDeadline,
    SignalReceived,
    StartFailed,
    StartWorker,
    Stop,
    Suspend,
    WorkerExited,
    begin,
    exit_status,
    signal_name,
    step,
)

GRACE = 15.0
STOP = [SetDeadline(GRACE), Stop(signal.SIGTERM)]
KILL = [Kill(), SetDeadline(KILL_PATIENCE_SECONDS)]


def exited(rank: int, code: int = 0) -> WorkerExited:
    return WorkerExited(rank, Exit(code=code), 1.0)


def died(rank: int, signum: int) -> WorkerExited:
    return WorkerExited(rank, Exit(signum=signum), 1.0)


def play(workers: int, *events: Event) -> Tuple[Launch, List[Action]]:
    """The launch after all events, and what the last of them asks for."""
    launch, actions = begin(tuple(range(workers)), GRACE)
    for event in events:
        launch, actions = step(launch, event)
    return launch, actions


TERM, INT = SignalReceived(signal.SIGTERM), SignalReceived(signal.SIGINT)


def test_a_launch_begins_by_starting_every_rank_in_order() -> None:
    launch, actions = begin((2, 0, 1), GRACE)
    assert actions == [StartWorker(0), StartWorker(1), StartWorker(2)]
    assert (launch.phase, exit_status(launch)) == (RUNNING, 0)


def test_a_failed_worker_ends_the_others() -> None:
    launch, actions = play(3, exited(1, 7))
    assert actions == STOP
    assert (launch.phase, launch.cause, exit_status(launch)) == (STOPPING, exited(1, 7), 7)


def test_a_worker_that_succeeds_ends_nobody() -> None:
    launch, actions = play(3, exited(1))
    assert (launch.phase, actions) == (RUNNING, [])


def test_the_last_workers_success_ends_what_workers_left_behind() -> None:
    launch, actions = play(2, exited(1), exited(0))
    assert (launch.phase, actions, exit_status(launch)) == (STOPPING, STOP, 0)
    assert play(2, exited(1), exited(0), NothingLeft())[0].phase == DONE


def test_a_later_failure_is_no_cause() -> None:
    launch, actions = play(3, died(1, signal.SIGSEGV), exited(0, 3))
    assert (launch.cause, exit_status(launch), actions) == (died(1, signal.SIGSEGV), 139, [])


def test_workers_that_fail_after_a_signal_are_no_cause() -> None:
    assert exit_status(play(2, TERM, exited(0, 3))[0]) == 143


@pytest.mark.parametrize(
    ("signum", "told", "status"),
    [
        (signal.SIGTERM, signal.SIGTERM, 143),
        (signal.SIGINT, signal.SIGINT, 130),
        (signal.SIGHUP, signal.SIGTERM, 129),
        (signal.SIGQUIT, signal.SIGTERM, 131),
    ],
)
def test_a_stopping_signal_stops_all(signum: int, told: int, status: int) -> None:
    launch, actions = play(2, SignalReceived(signum))
    assert actions == [SetDeadline(GRACE), Stop(told)]
    assert (launch.phase, exit_status(launch)) == (STOPPING, status)


def test_what_is_left_after_the_grace_is_killed() -> None:
    launch, actions = play(3, exited(1, 7), exited(0, 0), DeadlinePassed())
    assert actions == KILL
    assert (launch.phase, launch.was_killed, launch.killed, launch.is_hurried) == (KILLING, True, (2,), False)


def test_what_cannot_be_killed_is_given_up() -> None:
    launch, actions = play(2, TERM, DeadlinePassed(), DeadlinePassed())
    assert (launch.phase, actions, exit_status(launch)) == (DONE, [], 143)


def test_a_second_sigint_kills_at_once() -> None:
    launch, actions = play(2, INT, INT)
    assert (launch.phase, actions, launch.is_hurried, exit_status(launch)) == (KILLING, KILL, True, 130)


@pytest.mark.parametrize("first", [TERM, exited(0, 3)])
def test_a_sigint_while_stopping_for_another_reason_kills_at_once(first: Event) -> None:
    launch, actions = play(2, first, INT)
    assert (launch.phase, actions, launch.cause) == (KILLING, KILL, first)


@pytest.mark.parametrize("second", [TERM, SignalReceived(signal.SIGHUP)])
def test_a_second_signal_of_another_kind_changes_nothing(second: Event) -> None:
    launch, actions = play(2, INT, second)
    assert (launch.phase, actions, launch.cause) == (STOPPING, [], INT)


def test_what_is_deaf_to_sigint_gets_sigterm_once_the_workers_have_ended() -> None:
    """Every background job of a shell script ignores SIGINT."""
    assert play(2, INT, exited(0))[1] == []
    assert play(2, INT, exited(0), died(1, signal.SIGINT))[1] == [Stop(signal.SIGTERM)]


def test_a_command_that_cannot_be_started_stops_those_that_were() -> None:
    failed = StartFailed(1, 127, "no such command")
    launch, actions = play(3, failed)
    assert (launch.cause, launch.running, actions, exit_status(launch)) == (failed, frozenset({0}), STOP, 127)


def test_the_guardians_death_kills_at_once() -> None:
    launch, actions = play(2, GuardianDied())
    assert (launch.phase, actions, exit_status(launch)) == (KILLING, KILL, 137)


@pytest.mark.parametrize("signum", [signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH])
def test_other_signals_are_passed_on(signum: int) -> None:
    launch, actions = play(2, SignalReceived(signum))
    assert (launch.phase, actions) == (RUNNING, [PassOn(signum)])


def test_stop_and_continue_reach_the_workers() -> None:
    assert play(2, SignalReceived(signal.SIGTSTP))[1] == [Suspend()]
    assert play(2, SignalReceived(signal.SIGCONT))[1] == [Resume()]


@pytest.mark.parametrize("event", [TERM, exited(0, 3), DeadlinePassed(), NothingLeft(), GuardianDied()])
def test_nothing_happens_any_more_when_all_is_done(event: Event) -> None:
    done = play(2, exited(0), exited(1), NothingLeft())[0]
    assert step(done, event) == (done, [])


@pytest.mark.parametrize(
    ("exit", "status", "text"),
    [
        (Exit(code=0), 0, "exit status 0"),
        (Exit(code=255), 255, "exit status 255"),
        (Exit(signum=signal.SIGKILL), 137, "SIGKILL"),
        (Exit(signum=signal.SIGSEGV, core_dumped=True), 139, "SIGSEGV (core dumped)"),
        (Exit(signum=40), 168, "signal 40"),
    ],
)
def test_an_end_has_a_shells_number_and_a_name(exit: Exit, status: int, text: str) -> None:
    assert (exit.status, str(exit)) == (status, text)


def test_signals_without_a_name_are_numbered() -> None:
    assert (signal_name(15), signal_name(40)) == ("SIGTERM", "signal 40")


# Every history of two workers, as far as the world allows it.

LENGTH = 4


def test_whatever_happens_the_rules_hold() -> None:
    launch, _ = begin((0, 1), GRACE)
    assert sum(1 for _ in histories(launch, False, LENGTH)) > 2000


def histories(before: Launch, has_deadline: bool, length: int) -> Iterator[Launch]:
    """Every launch that `before` can become in so many events; each step is checked."""
    for event in possible_events(before, has_deadline) if length else ():
        after, actions = step(before, event)
        check(before, event, after, actions)
        timer = has_deadline and not isinstance(event, DeadlinePassed)
        timer = timer or any(isinstance(action, SetDeadline) for action in actions)
        yield after
        yield from histories(after, timer, length - 1)


def possible_events(launch: Launch, has_deadline: bool) -> Iterator[Event]:
    for rank in launch.running:
        yield from (exited(rank), exited(rank, 3), died(rank, signal.SIGTERM))
    if launch.phase == RUNNING and not launch.exits:  # all are started before anything else is looked at
        yield StartFailed(1, 127, "")
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGTSTP):
        yield SignalReceived(signum)
    yield GuardianDied()
    if has_deadline:
        yield DeadlinePassed()
    if not launch.running:
        yield NothingLeft()


def check(before: Launch, event: Event, after: Launch, actions: List[Action]) -> None:
    assert after.phase.number >= before.phase.number
    assert before.cause is None or after.cause == before.cause
    assert after.running <= before.running
    assert not any(isinstance(action, StartWorker) for action in actions)
    assert set(after.killed) <= {0, 1} - set(after.exits) or after.killed == before.killed
    if before.phase == DONE:
        assert (after, actions) == (before, [])
    if after.phase in (STOPPING, KILLING) and before.phase == RUNNING:
        assert any(isinstance(action, (Stop, Kill)) for action in actions)
        assert any(isinstance(action, SetDeadline) for action in actions)
    if after.phase == DONE and exit_status(after) == 0:
        assert [after.exits[rank].exit.status for rank in (0, 1)] == [0, 0]
    if after.cause is not None:
        assert exit_status(after) != 0
