"""Which engine a launch takes, and how many GPUs a node has."""

from __future__ import annotations

import os

import pytest

from davincirun.errors import DeviceError, UsageError
from davincirun.mpi import cards, gpus
from davincirun.mpi.choice import is_for_mpirun
from davincirun.options import Options

COMMAND = ("python", "train.py")
MIG = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc3f)
  MIG 3g.20gb     Device  0: (UUID: MIG-7c13d3c4-1b2f-5d3a-9c4b-111111111111)
  MIG 3g.20gb     Device  1: (UUID: MIG-7c13d3c4-1b2f-5d3a-9c4b-222222222222)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-5c89852c-d268-c3f3-1b07-005d5ae1dc40)
"""


@pytest.fixture
def machine(tmp_path):
    """A machine's root that is filled by names of device nodes and tools."""

    def made(*names: str) -> str:
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(
                "#!/bin/sh\necho 'GPU 0: A100 (UUID: GPU-1)'\n" if "lists" in name else "#!/bin/sh\nexit 9\n"
            )
            path.chmod(0o755)
            if "lists" in name:
                path.rename(path.with_name("nvidia-smi"))
        return str(tmp_path)

    return made


@pytest.mark.parametrize(
    "names, environ, expected",
    [
        (["dev/davinci0"], {}, False),
        (["dev/davinci0", "dev/nvidia0"], {}, False),
        (["dev/nvidia0"], {}, True),
        (["usr/bin/nvidia-smi that lists one"], {}, True),
        (["usr/bin/nvidia-smi", "usr/bin/npu-smi"], {}, False),
        ([], {"CUDA_VISIBLE_DEVICES": "0,1"}, True),
        ([], {"NVIDIA_VISIBLE_DEVICES": "GPU-1"}, True),
        ([], {"OPENMPI_NP": "2"}, True),
        (["usr/local/bin/npu-smi"], {}, False),
        (["dev/nvidia0"], {"RANK_TABLE_FILE": "/table"}, False),
        (["dev/nvidia0", "user/config/jobstart_hccl.json"], {}, False),
    ],
)
def test_cards_and_tables_choose(machine, names: "list[str]", environ: "dict[str, str]", expected: bool) -> None:
    assert is_for_mpirun(Options(COMMAND), environ, machine(*names)) is expected


@pytest.mark.parametrize("environ", [{}, {"NVIDIA_VISIBLE_DEVICES": "all"}, {"CUDA_VISIBLE_DEVICES": "-1"}])
def test_without_any_sign_the_error_names_both_and_the_way_out(machine, environ: "dict[str, str]") -> None:
    with pytest.raises(DeviceError) as caught:
        is_for_mpirun(Options(COMMAND), environ, machine())
    for word in ("davinci", "nvidia-smi", "--simulate 8", "--simulate gpu:8", "--engine"):
        assert word in str(caught.value)


def test_the_user_has_the_last_word(machine) -> None:
    root = machine("dev/davinci0")
    assert is_for_mpirun(Options(COMMAND, engine="mpi"), {}, root)
    assert not is_for_mpirun(Options(COMMAND, engine="ascend"), {"OPENMPI_NP": "1"}, machine("dev/nvidia0"))
    assert is_for_mpirun(Options(COMMAND, simulate="gpu:8"), {}, root)
    assert not is_for_mpirun(Options(COMMAND, simulate="8"), {"OPENMPI_NP": "1"}, root)


@pytest.mark.parametrize("spec, count", [("gpu:8", 8), ("gpu", 1), ("GPU:2", 2)])
def test_simulated_gpus(spec: str, count: int) -> None:
    assert cards.count({}, spec) == gpus.Gpus(count, "simulated GPUs")


@pytest.mark.parametrize("spec", ["8", "gpu:0", "gpu:x", "gpus:2"])
def test_what_simulates_no_gpu_is_refused(spec: str) -> None:
    with pytest.raises(UsageError, match="gpu:8"):
        cards.count({}, spec)


def test_nvidia_smi_is_asked_and_an_instance_counts_in_place_of_its_gpu(machine) -> None:
    root = machine("usr/bin/nvidia-smi")
    with open(os.path.join(root, "usr/bin/nvidia-smi"), "w") as file:
        file.write(f"#!/bin/sh\n[ \"$1\" = -L ] && cat <<'END'\n{MIG}END\n")
    assert cards.count({"PATH": os.path.join(root, "usr/bin") + ":/usr/bin:/bin"}, None, root) == gpus.Gpus(
        3, "nvidia-smi -L"
    )


@pytest.mark.parametrize(
    "environ, count",
    [
        ({"CUDA_VISIBLE_DEVICES": "2,3"}, 2),
        ({"CUDA_VISIBLE_DEVICES": "1,-1,0"}, 1),
        ({"CUDA_VISIBLE_DEVICES": "MIG-1,MIG-2,MIG-3"}, 3),
        ({"NVIDIA_VISIBLE_DEVICES": "GPU-1,GPU-2"}, 2),
        ({"MA_NUM_GPUS": "4"}, 4),
    ],
)
def test_variables_tell_the_number(machine, environ: "dict[str, str]", count: int) -> None:
    found = cards.count(environ, None, machine())
    assert found is not None and found.per_node == count


def test_device_nodes_are_counted_and_nothing_is_none(machine) -> None:
    assert cards.count({}, None, machine()) is None
    found = cards.count({}, None, machine("dev/nvidia0", "dev/nvidia1", "dev/nvidiactl", "dev/nvidia-uvm"))
    assert found is not None and found.per_node == 2
