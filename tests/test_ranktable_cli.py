"""`davincictl ranktable`: what its verbs print, write and return."""

from __future__ import annotations

import argparse
import io
import json
import os
import stat
import sys
from typing import Any, List

import pytest
from ranktable_documents import Document, cluster_v1, device, group, group_list, pod, server, v1

from davincirun import ranktable_cli
from davincirun.errors import DeviceError, RankTableError, UsageError
from davincirun.ranktable_files import NotReadyError


def run(*argv: str) -> int:
    parser = argparse.ArgumentParser()
    ranktable_cli.add_parser(parser.add_subparsers())
    options = parser.parse_args(["ranktable", *argv])
    status: int = options.handler(options)
    return status


class Folder:
    """A folder of tables, made by name."""

    def __init__(self, path: str) -> None:
        self.path = path

    def write(self, name: str, content: Any) -> str:
        path = os.path.join(self.path, name)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else json.dumps(content).encode())
        return path

    def read(self, name: str) -> Document:
        with open(os.path.join(self.path, name), "rb") as file:
            document: Document = json.load(file)
        return document


@pytest.fixture
def folder(tmp_path: Any) -> Folder:
    return Folder(str(tmp_path))


ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GOOD = cluster_v1("a", "b")
INTERLEAVED = v1(server("a", device("0", "0"), device("1", "2")), server("b", device("0", "1")))
for entry in INTERLEAVED["server_list"]:
    for fields in entry["device"]:
        fields["device_ip"] = f"10.0.0.{fields['rank_id']}"
BAD = v1(server("a", device("0", "1")))
FOREIGN = {"status": "completed", "server_group_list": []}
WAITING = {"status": "initializing"}


@pytest.mark.parametrize(
    ("documents", "strict", "status"),
    [
        ([GOOD], False, 0),
        ([INTERLEAVED], False, 0),
        ([INTERLEAVED], True, 1),
        ([BAD], False, 1),
        ([FOREIGN], False, 1),
        ([WAITING], False, 2),
        ([b'{"status": "compl'], False, 2),
        ([GOOD, WAITING], False, 2),
        ([WAITING, BAD, GOOD], False, 1),
    ],
)
def test_validate_returns_the_worst_status(folder: Folder, documents: List[Any], strict: bool, status: int) -> None:
    paths = [folder.write(f"{index}.json", document) for index, document in enumerate(documents)]
    assert run("validate", *paths, *(["--strict"] if strict else [])) == status


def test_validate_says_place_problem_and_remedy_on_a_line(folder: Folder, capsys: Any) -> None:
    path = folder.write("t.json", BAD)
    run("validate", path)
    assert capsys.readouterr().out == (
        f"{path}: error (version 1.0)\n"
        "  error rank-base: server_list[0].device[0].rank_id: rank ids start at 1; they start at 0 (HCCL: EI0014); "
        "number from 0\n"
    )


def test_validate_as_json_lists_every_file(folder: Folder, capsys: Any) -> None:
    good, bad = folder.write("good.json", GOOD), folder.write("bad.json", BAD)
    assert run("validate", "--json", good, bad, os.path.join(folder.path, "none.json")) == 1
    first, second, third = json.loads(capsys.readouterr().out)
    assert first == {"file": good, "form": "1.0", "verdict": "ok", "findings": []}
    assert (second["file"], second["verdict"]) == (bad, "error")
    assert second["findings"] == [
        {
            "severity": "error",
            "code": "rank-base",
            "path": "server_list[0].device[0].rank_id",
            "message": "rank ids start at 1; they start at 0",
            "remedy": "number from 0",
            "hccl": "EI0014",
        }
    ]
    assert (third["verdict"], third["findings"][0]["code"]) == ("not-ready", "not-ready")


def test_validate_reads_standard_input_and_modelarts_folders(folder: Folder, monkeypatch: Any, capsys: Any) -> None:
    folder.write("jobstart_hccl.json", group_list(group(pod("x-0", "a", "0"))))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(GOOD).encode())))
    assert run("validate", "-", folder.path) == 0
    path = os.path.join(folder.path, "jobstart_hccl.json")
    assert capsys.readouterr().out.splitlines() == ["<stdin>: ok (version 1.0)", f"{path}: ok (group_list)"]


def test_validate_takes_the_chip_and_the_pod_into_account(folder: Folder, capsys: Any) -> None:
    path = folder.write("t.json", group_list(group(pod("x-0", "a", "0"))))
    assert run("validate", "--pod", "x-9", "--chip", "A5", path) == 1
    out = capsys.readouterr().out
    assert "not-in-table" in out
    assert "version-vs-chip" in out


def test_convert_writes_a_complete_file_with_open_permissions(folder: Folder) -> None:
    path = folder.write("t.json", group_list(group(pod("x-1", "b", "0"), pod("x-0", "a", "0"))))
    output = os.path.join(folder.path, "new", "hccl.json")
    assert run("convert", "--to", "1.0", path, "-o", output) == 0
    assert [entry["server_id"] for entry in folder.read("new/hccl.json")["server_list"]] == ["a", "b"]
    assert stat.S_IMODE(os.stat(output).st_mode) == 0o644
    assert os.listdir(os.path.dirname(output)) == ["hccl.json"]


def test_convert_leaves_nothing_out_unless_told_to(folder: Folder, capsysbinary: Any) -> None:
    path = folder.write("t.json", v1(server("a", device("0", "0", "10.0.0.1"), host_ip="10.0.0.9")))
    with pytest.raises(RankTableError, match="no place for host_ip of the servers: add --lossy"):
        run("convert", "--to", "group_list", path)
    assert run("convert", "--lossy", "--to", "group_list", path) == 0
    assert b"host_ip" not in capsysbinary.readouterr().out


@pytest.mark.parametrize("verb", [["convert", "--to", "1.2"], ["show"], ["merge"]])
def test_a_table_that_is_not_ready_is_told_with_status_2(folder: Folder, verb: List[str]) -> None:
    for path in (folder.write("t.json", WAITING), os.path.join(folder.path, "none.json")):
        with pytest.raises(NotReadyError) as raised:
            run(*verb, path)
        assert raised.value.exit_status == 2
        assert str(raised.value).startswith(path)


def test_merge_joins_files_in_the_order_asked_for(folder: Folder, capsysbinary: Any) -> None:
    paths = [folder.write(f"{name}.json", cluster_v1(f"10.0.0.{name}", per_server=1)) for name in ("100", "9")]
    assert run("merge", *paths) == 0
    given = json.loads(capsysbinary.readouterr().out)
    assert run("merge", "--order", "server", *paths) == 0
    by_server = json.loads(capsysbinary.readouterr().out)
    assert [entry["server_id"] for entry in given["server_list"]] == ["10.0.0.100", "10.0.0.9"]
    assert [entry["server_id"] for entry in by_server["server_list"]] == ["10.0.0.9", "10.0.0.100"]


def test_show_draws_the_table(folder: Folder, capsys: Any) -> None:
    assert run("show", folder.write("t.json", GOOD)) == 0
    out = capsys.readouterr().out
    assert "version 1.0, 4 devices on 2 servers" in out
    assert "b: ranks 2-3 on devices 0-1" in out


def test_diff_returns_1_when_anything_but_the_form_differs(folder: Folder, capsys: Any) -> None:
    good = folder.write("good.json", GOOD)
    marked = folder.write("marked.json", {**GOOD, "time": 1})
    other = folder.write("other.json", cluster_v1("a", "c"))
    pods = folder.write("pods.json", group_list(group(pod("x-0", "a", "0"))))
    converted = os.path.join(folder.path, "converted.json")
    run("convert", "--to", "1.0", pods, "-o", converted)
    assert run("diff", good, good) == 0
    assert capsys.readouterr().out == ""
    assert run("diff", pods, converted) == 0
    assert "as group_list and as 1.0" in capsys.readouterr().out
    assert run("diff", good, marked) == 1
    assert "+ time: 1" in capsys.readouterr().out
    assert run("diff", good, other) == 1
    assert "+ server c: ranks 2-3" in capsys.readouterr().out


def test_diff_of_strangers_is_cut_short_unless_all_is_asked_for(folder: Folder, capsys: Any) -> None:
    before = folder.write("before.json", cluster_v1("a", per_server=200))
    after = folder.write("after.json", cluster_v1("b", per_server=200))
    run("diff", before, after)
    assert "more differences (--all prints them)" in capsys.readouterr().out.splitlines()[-1]
    run("diff", "--all", before, after)
    assert len(capsys.readouterr().out.splitlines()) == 402


def test_generate_describes_hosts_that_can_not_be_reached(folder: Folder, capsysbinary: Any) -> None:
    addresses = ",".join(f"192.168.{host}.{card}" for host in (1, 2) for card in (0, 1))
    assert run("generate", "--hosts", "10.0.0.1,10.0.0.2", "--devices", "0-1", "--device-ips", addresses) == 0
    document = json.loads(capsysbinary.readouterr().out)
    assert document["server_list"][1] == server(
        "10.0.0.2", device("0", "2", "192.168.2.0"), device("1", "3", "192.168.2.1")
    )
    assert (document["status"], document["version"], document["server_count"]) == ("completed", "1.0", "2")


def test_generate_warns_of_what_is_missing(capsys: Any) -> None:
    assert run("generate", "--hosts", "a,b", "--devices", "0") == 0
    assert "a device 0 has no device_ip" in capsys.readouterr().err


def test_generate_puts_servers_into_super_pods(folder: Folder, capsysbinary: Any) -> None:
    inventory = folder.write("inventory", b"a 0@0 1@1\nb 0@2 1@3\n")
    assert run("generate", "--inventory", inventory, "--super-pod", "7") == 0
    document = json.loads(capsysbinary.readouterr().out)
    assert document["version"] == "1.2"
    assert document["super_pod_list"] == [
        {"super_pod_id": "7", "server_list": [{"server_id": "a"}, {"server_id": "b"}]}
    ]


def test_generate_of_a_super_pod_needs_the_devices_ids_in_it() -> None:
    with pytest.raises(RankTableError, match="super_device_id: it is empty on rank 0"):
        run("generate", "--hosts", "a", "--devices", "0", "--super-pod", "7")


def test_generate_uses_this_servers_cards(capsysbinary: Any) -> None:
    assert run("generate", "--simulate", "4", "--server-id", "me", "--devices", "3,1", "--format", "group_list") == 0
    captured = capsysbinary.readouterr()
    instance = json.loads(captured.out)["group_list"][0]["instance_list"][0]
    assert (instance["server_id"], [entry["device_id"] for entry in instance["devices"]]) == ("me", ["3", "1"])


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--hosts", "a", "--inventory", "x"], "give one of them"),
        (["--device-ips", "1.1.1.1"], "needs --hosts"),
        (["--simulate", "2", "--devices", "5"], "no device 5; it has 0, 1"),
        (["--hosts", "a", "--devices", "x"], "no list of device ids"),
    ],
)
def test_generate_refuses_what_makes_no_sense(argv: List[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        run("generate", *argv)


def test_generate_says_why_2_0_can_not_be_described() -> None:
    with pytest.raises(DeviceError, match="server a, device 0: its address and ports aren't known"):
        run("generate", "--hosts", "a", "--devices", "0", "--format", "2.0")


def test_generate_writes_2_0_for_ascend_950(folder: Folder) -> None:
    path = os.path.join(folder.path, "hccl.json")
    assert run("generate", "--simulate", "950:0,1,5", "--server-id", "node", "-o", path) == 0
    document = folder.read("hccl.json")
    assert (document["version"], document["rank_count"]) == ("2.0", 3)
    assert [[rank[key] for key in ("rank_id", "local_id", "device_id")] for rank in document["rank_list"]] == [
        [0, 0, 0],
        [1, 1, 1],
        [2, 5, 5],
    ]
    [layer] = document["rank_list"][2]["level_list"]
    assert (layer["net_layer"], layer["net_instance_id"], layer["net_type"]) == (0, "node", "TOPO_FILE_DESC")
    assert run("validate", "--strict", path) == 0


@pytest.mark.parametrize(
    ("spec", "form", "told"), [("950:2", "1.0", "wants 2.0"), ("8", "2.0", "aren't known"), ("a3:2", "1.0", "")]
)
def test_generate_tells_of_a_version_that_the_chip_does_not_read(
    spec: str, form: str, told: str, folder: Folder, capsys: Any
) -> None:
    path = os.path.join(folder.path, "hccl.json")
    try:
        run("generate", "--simulate", spec, "--format", form, "-o", path)
    except DeviceError as error:
        print(error, file=sys.stderr)
    assert told in capsys.readouterr().err
    assert os.path.exists(path) == (told != "aren't known")


def test_validate_checks_the_version_against_the_cards_found_here(
    folder: Folder, monkeypatch: Any, capsys: Any
) -> None:
    tools = os.path.join(ROOT, "tools", "fake_ascend")
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_ASCEND", "950:1")
    path = folder.write("hccl.json", GOOD)
    assert run("validate", path) == 0
    assert "version 1.0 is for 910, A2 and A3; Ascend 950 (A5) wants 2.0" in capsys.readouterr().out
    assert run("validate", "--chip", "A2", path) == 0
    assert "version-vs-chip" not in capsys.readouterr().out
