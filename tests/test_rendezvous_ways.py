"""Sixteen launchers in one process meet each way there is: who comes, who doesn't, who comes twice, who vanishes."""

from __future__ import annotations

import select
import shutil
import socket
import time
from contextlib import ExitStack
from types import TracebackType
from typing import Callable, Dict, Iterator, List, Optional, Tuple, Type, Union

import pytest
from helpers.etcd import Etcd, needs_etcd

from davincirun.lifecycle import NodeFailed
from davincirun.platforms import Explicit, find_context
from davincirun.rendezvous import liaison as meetings
from davincirun.rendezvous.agreement import Agreement
from davincirun.rendezvous.contribution import Card, Contribution
from davincirun.rendezvous.liaison import Liaison, Orders
from davincirun.rendezvous.news import Done, News, Progress, Refused, Warned
from davincirun.rendezvous.server import Server
from davincirun.rendezvous.sockets import Place
from davincirun.rendezvous.store import StoreError
from davincirun.rendezvous.terms import Terms
from davincirun.rendezvous.ways import meeting
from davincirun.rendezvous.wire import job_key

Kind = Union[Type[News], Tuple[Type[News], ...]]
COUNT = 16
PATIENCE = 30.0


class Side:
    """Whoever takes part in a meeting."""

    def __init__(self, meeting: "meetings.Meeting") -> None:
        self._liaison = Liaison(meeting)
        self.news: List[News] = []

    def wait_for(self, kind: Kind, seconds: float = PATIENCE, past: int = 0, that: str = "") -> News:
        """The first news of this kind that says `that`, come or yet to come; `past` earlier ones are left out."""
        deadline = time.monotonic() + seconds
        while True:
            found = [news for news in self.news if isinstance(news, kind) and that in str(news)]
            if len(found) > past:
                return found[past]
            ready, _, _ = select.select([self._liaison.fd], [], [], max(deadline - time.monotonic(), 0))
            assert ready, f"{self}: no {kind} among {self.news}"
            self.news += self._liaison.take()

    def give(self, order: NodeFailed) -> None:
        self._liaison.give(order)

    def leave(self) -> None:
        self._liaison.give(Done())

    def close(self) -> None:
        self._liaison.leave(PATIENCE)
        self._liaison.close()


class Launcher(Side):
    """The meeting's side of one launcher."""

    def __init__(self, where: str, rank: Optional[int], terms: Terms, name: str = "") -> None:
        self.mine = contribution(rank, terms.node_count, name or f"host{rank}")
        context = find_context({}, Explicit(terms.node_count, rank))
        super().__init__(meeting(where, "run", self.mine, terms, context))

    def __str__(self) -> str:
        return self.mine.title


class Meeting:
    """All launchers of one test."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.launchers: List[Launcher] = []
        self.terms = Terms(job_key("run"), COUNT, (), 60.0, 15.0)

    def join(self, rank: Optional[int], name: str = "") -> Launcher:
        launcher = Launcher(self.where, rank, self.terms, name)
        self.launchers.append(launcher)
        return launcher

    def join_all(self, without: int = -1) -> List[Launcher]:
        return [self.join(rank) for rank in reversed(range(COUNT)) if rank != without]

    def __enter__(self) -> Meeting:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        for launcher in self.launchers:
            launcher.leave()
        for launcher in self.launchers:
            launcher.close()


def contribution(rank: Optional[int], count: int, host: str) -> Contribution:
    number = int(host[len("host") :])
    cards = tuple(Card(card, f"10.9.{number}.{card}", None) for card in range(2))
    names = (f"10.0.0.{number + 1}", host)
    return Contribution(
        f"{host}-{time.monotonic_ns()}", rank, count, host, names, cards, None, None, "1", "true", "job", 1
    )


@pytest.fixture
def way(where_to_meet: str) -> Iterator[Callable[[], Meeting]]:
    with ExitStack() as stack:
        yield lambda: stack.enter_context(Meeting(where_to_meet))


def test_all_get_the_same_bytes_in_the_order_of_their_ranks(way: Callable[[], Meeting]) -> None:
    agreements = [one.wait_for(Agreement) for one in way().join_all()]
    assert len({agreement.table for agreement in agreements}) == 1
    assert [node.host for node in agreements[0].nodes] == [f"host{rank}" for rank in range(COUNT)]


def test_one_that_never_comes_is_named_to_all(way: Callable[[], Meeting]) -> None:
    meeting = way()
    meeting.terms = meeting.terms._replace(timeout_seconds=3.0, hosts=tuple(f"host{rank}" for rank in range(COUNT)))
    for one in meeting.join_all(without=5):
        assert "nothing of node 5 (host5)" in one.wait_for(Refused).text
        assert any(isinstance(news, Progress) and "node 5 (host5)" in news.text for news in one.news), one.news


def test_one_that_comes_twice_is_refused_and_the_others_go_on(way: Callable[[], Meeting]) -> None:
    meeting = way()
    launchers = meeting.join_all(without=3)
    launchers += [meeting.join(3), meeting.join(3)]
    outcomes: Dict[str, int] = {"agreed": 0, "refused": 0}
    for one in launchers:
        outcome = one.wait_for((Agreement, Refused))
        outcomes["refused" if isinstance(outcome, Refused) else "agreed"] += 1
    assert outcomes == {"agreed": COUNT, "refused": 1}
    (refused,) = [news for one in launchers for news in one.news if isinstance(news, Refused)]
    assert "node 3 (host3) has come already" in refused.text


def test_one_that_comes_too_late_is_refused(way: Callable[[], Meeting]) -> None:
    meeting = way()
    for one in meeting.join_all():
        one.wait_for(Agreement)
    meeting.terms = meeting.terms._replace(node_count=COUNT)
    late = meeting.join(7, "host99")
    assert "node 7 (host7) has come already" in late.wait_for(Refused).text


def test_the_first_of_two_failures_is_everybody_s(way: Callable[[], Meeting]) -> None:
    launchers = way().join_all()
    for one in launchers:
        one.wait_for(Agreement)
    failures = [NodeFailed(rank, f"host{rank}", rank, problem="failed") for rank in (3, 4)]
    for failure in failures:
        next(one for one in launchers if one.mine.node_rank == failure.node_rank).give(failure)
    verdicts = {one.wait_for(NodeFailed) for one in launchers}
    assert len(verdicts) == 1 and verdicts <= set(failures)


def test_a_node_that_mpirun_lost_before_we_did_is_the_cause_of_its_stopping_another() -> None:
    """mpirun tells the launchers on the other nodes to stop at once; that a node is gone, the meeting learns later."""
    terms = Terms(job_key("run"), 2, (), 60.0, 1.0)
    server = Server(Place(("127.0.0.1",), (0,)), None, terms)
    server.open()
    conductor = Side(server)
    where = f"point://127.0.0.1:{server.port}"
    other, orders = Launcher(where, 0, terms), Orders()
    lost = meeting(where, "run", contribution(1, 2, "host1"), terms, find_context({}, Explicit(2, 1)))
    try:
        lost.put(orders)
        assert lost.wait_for_all(orders, lambda news: None)
        other.wait_for(Agreement)
        stopped = NodeFailed(0, "host0", 143, problem="stopped by SIGTERM")
        other.give(stopped)
        assert conductor.wait_for(NodeFailed) == stopped
    finally:
        lost.close()  # without a word
        orders.close()
        other.leave()
        conductor.leave()
    named = conductor.wait_for(NodeFailed, past=1)
    assert (named.node_rank, named.host, named.status) == (1, "host1", 1) and "vanished" in named.problem
    other.close()
    conductor.close()


class TestEtcd:
    """What only etcd's own life brings about."""

    pytestmark = needs_etcd

    def test_a_restart_while_nodes_gather_is_survived(self, tmp_path) -> None:
        with Etcd(str(tmp_path)) as etcd, Meeting(etcd.where) as meeting:
            launchers = meeting.join_all(without=1)
            for one in launchers:
                one.wait_for(Progress)
            etcd.stop()
            for one in launchers:
                one.wait_for(Progress, that="trying again")
            etcd.start()
            launchers.append(meeting.join(1))
            assert len({one.wait_for(Agreement, 60).table for one in launchers}) == 1

    def test_a_restart_while_workers_run_is_survived(self, tmp_path) -> None:
        with Etcd(str(tmp_path)) as etcd, Meeting(etcd.where) as meeting:
            meeting.terms = meeting.terms._replace(silence_seconds=5.0)
            launchers = meeting.join_all()
            for one in launchers:
                one.wait_for(Agreement)
            etcd.stop()
            for one in launchers:  # for longer than a node may be silent, and than a lease lasts
                one.wait_for(Warned)
            etcd.start()
            failure = NodeFailed(3, "host3", 7, problem="failed")
            launchers[0].give(failure)
            assert {one.wait_for(NodeFailed) for one in launchers} == {failure}

    def test_a_silent_member_is_given_up_for_one_that_answers(self, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
        from davincirun.rendezvous.etcd import Etcd as Store

        monkeypatch.setattr("davincirun.rendezvous.etcd._CALL_SECONDS", 1.0)
        with socket.socket() as silent, Etcd(str(tmp_path)) as etcd:
            silent.bind(("127.0.0.1", 0))
            silent.listen()
            store = Store([silent.getsockname(), ("127.0.0.1", etcd.port)], "run", False, 5.0)
            assert store.create("leader", b"mine")
            only = Store([silent.getsockname()], "run", False, 5.0)
            with pytest.raises(StoreError, match="no answer within 1 s"):
                only.get("leader")
            store.close()
            only.close()

    @pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl isn't installed")
    def test_tls_trusts_whom_the_machine_trusts(self, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
        from davincirun.rendezvous.etcd import Etcd as Store

        with Etcd(str(tmp_path), is_tls=True) as etcd:
            stranger = Store([("127.0.0.1", etcd.port)], "run", True, 5.0)
            with pytest.raises(StoreError, match="certificate verify failed"):
                stranger.get("leader")
            monkeypatch.setenv("SSL_CERT_FILE", etcd.certificate)
            monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
            friend = Store([("127.0.0.1", etcd.port)], "run", True, 5.0)
            assert friend.create("leader", b"mine")
            stranger.close()
            friend.close()

    def test_nothing_of_a_crashed_launcher_outlives_its_lease(self, tmp_path) -> None:
        from davincirun.rendezvous.etcd import Etcd as Store

        with Etcd(str(tmp_path)) as etcd:
            store = Store([("127.0.0.1", etcd.port)], "run", False, 5.0)
            assert store.create("leader", b"crashed") and not store.create("leader", b"another")
            store.close()
            watcher = Store([("127.0.0.1", etcd.port)], "run", False, 5.0)
            deadline = time.monotonic() + 20
            while watcher.get("leader") is not None:
                assert time.monotonic() < deadline
                time.sleep(0.1)
            watcher.close()
