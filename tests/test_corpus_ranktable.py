"""Every stored rank table comes out as tests/data/rank_tables/INDEX.tsv says."""

from __future__ import annotations

import json
import os
from typing import List, Optional, Tuple

import pytest

from davincirun import ranktable
from davincirun.errors import RankTableError
from davincirun.ranktable import NotYet, RankTable
from davincirun.ranktable.validate import examine

TABLES_PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "rank_tables")
LAUNCHED_ALL_THE_SAME = {  # whether HCCL refuses these depends on the chip, on switches, or on the rest of the file
    "bad/029-v1-two-pods-one-node.json",
    "bad/081-v1-missing-device-ip-multi.json",
    "bad/084-v1-mixed-family.json",
    "bad/096-v1-port-out-of-range.json",
    "bad/116-v2.0-levels-not-rising.json",
    "bad/117-v2.0-addr-type-case.json",
}


def index() -> List[Tuple[str, str, str, Optional[str]]]:
    with open(os.path.join(TABLES_PATH, "INDEX.tsv"), encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines][1:]
    return [(name, verdict, code, None if chip == "-" else chip) for name, verdict, code, chip in rows]


def read(name: str) -> bytes:
    with open(os.path.join(TABLES_PATH, name), "rb") as table:
        return table.read()


@pytest.mark.parametrize(("name", "verdict", "code", "chip"), index())
def test_the_validator_says_of_each_corpus_table_what_the_index_says(
    name: str, verdict: str, code: str, chip: Optional[str]
) -> None:
    report = examine(read(name), name, chip=chip)
    assert report.verdict == verdict
    assert code in [finding.code for finding in report.findings] or code == "-"
    for finding in report.findings:
        assert finding.message


@pytest.mark.parametrize("name", [row[0] for row in index()])
def test_the_launch_takes_the_usable_corpus_tables_and_refuses_the_others(name: str) -> None:
    folder = name.split("/")[0]
    if folder == "not_ready":
        assert isinstance(ranktable.parse(read(name), name), NotYet)
    elif folder in ("good", "warning") or name in LAUNCHED_ALL_THE_SAME:
        table = ranktable.parse(read(name), name)
        assert isinstance(table, RankTable)
        assert table.text == read(name)
        assert ranktable.to_cluster(table, name).world_size > 0
    else:
        with pytest.raises(RankTableError) as raised:
            table = ranktable.parse(read(name), name)
            assert isinstance(table, RankTable)
            ranktable.to_cluster(table, name)
        assert str(raised.value).startswith(name)


@pytest.mark.parametrize("name", sorted(os.listdir(os.path.join(TABLES_PATH, "converted"))))
def test_group_list_corpus_tables_convert_as_the_platforms_launcher_converts_them(name: str) -> None:
    folder = next(folder for folder in ("good", "warning") if os.path.exists(os.path.join(TABLES_PATH, folder, name)))
    table = ranktable.parse(read(f"{folder}/{name}"), name)
    assert isinstance(table, RankTable)
    converted = ranktable.from_servers(ranktable.to_cluster(table, name).servers)
    assert json.loads(converted) == json.loads(read(f"converted/{name}"))
    again = ranktable.parse(converted, name)
    assert isinstance(again, RankTable)
    assert ranktable.to_cluster(again, name).servers == ranktable.to_cluster(table, name).servers


@pytest.mark.parametrize("name", [row[0] for row in index()])
def test_a_big_table_is_read_in_columns_and_says_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every stored table is taken for a big one: clusters, conversions and errors are those of the small."""
    small = outcome(name)
    monkeypatch.setattr("davincirun.ranktable.launch.BIG_BYTES", -1)
    assert outcome(name) == small


def outcome(name: str) -> object:
    """What a launch gets out of a table: its cluster and what it converts to, why it waits, or the error."""
    try:
        table = ranktable.read(read(name), name)
        if isinstance(table, NotYet):
            return table
        cluster = ranktable.to_cluster(table, name)
        servers = [(server.server_id, server.addresses, tuple(server.devices)) for server in cluster.servers]
        pods = [(pod.pod_name, pod.server_id, tuple(pod.devices)) for pod in cluster.pods]
        converted = ranktable.from_servers(cluster.servers) if table.form == "group_list" else b""
        return servers, pods, cluster.super_pods, converted
    except RankTableError as error:
        return str(error)
