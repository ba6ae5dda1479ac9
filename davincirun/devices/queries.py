"""Asks npu-smi which cards there are, and turns what it answers into values or into reasons."""

from __future__ import annotations

from typing import Callable, Optional, Tuple, TypeVar

from davincirun.devices.commands import Answer, Commands
from davincirun.devices.reading import ReaderError, first_line
from davincirun.devices.smi_failure import read_failure
from davincirun.devices.smi_map import IdMap, read_map
from davincirun.devices.smi_table import InfoTable, read_info
from davincirun.devices.tools import Tool
from davincirun.values import Value

_T = TypeVar("_T")


class SmiAnswers(Value):
    """What npu-smi said of the machine; None where it failed."""

    id_map: Optional[IdMap] = None
    table: Optional[InfoTable] = None
    notes: Tuple[str, ...] = ()  # why it failed, and which lines could not be understood


def ask_npu_smi(commands: Commands, npu_smi: Tool) -> SmiAnswers:
    """The map of ids and the table with health and processes, asked for at once."""
    if npu_smi.path is None:
        return SmiAnswers(notes=(npu_smi.absence,))
    map_call, table_call = commands.start(npu_smi.path, "info", "-m"), commands.start(npu_smi.path, "info")
    id_map, map_failure = read_answer(map_call.answer(), read_map)
    table, table_failure = read_answer(table_call.answer(), read_info)
    notes = [f"npu-smi info -m: {map_failure}"] if map_failure and map_failure != table_failure else []
    notes += [f"npu-smi info: {table_failure}"] if table_failure else []
    notes += [f"npu-smi info -m: {problem}" for problem in (id_map.problems if id_map else ())]
    notes += [f"npu-smi info: {problem}" for problem in (table.problems if table else ())]
    return SmiAnswers(id_map, table, tuple(notes))


def read_answer(answer: Answer, read: Callable[[str], _T]) -> Tuple[Optional[_T], str]:
    """The value in the answer and a note: why there is none, or that the tool printed it and failed all the same."""
    if answer.status is None:
        return None, answer.failure
    status = f"status {answer.status}"
    try:
        value = read(answer.stdout)
    except ReaderError as error:
        failure = read_failure(answer.stdout + "\n" + answer.stderr)
        said = first_line(answer.stderr)[1] or first_line(answer.stdout)[1]
        if failure:
            return None, f"{failure.text} ({failure.meaning})"
        if answer.status == 0:
            return None, error.problem
        return None, f"{status}, {said.strip()[:200]!r}" if said else f"{status} and no message"
    return value, f"{status}, though it printed an answer" if answer.status else ""
