"""Asks npu-smi which cards there are, and turns what it answers into values or into reasons."""

from __future__ import annotations

from typing import Callable, NamedTuple, Optional, Tuple, TypeVar

from davincirun.devices.commands import Answer, Commands
from davincirun.devices.reading import ReaderError, first_line
from davincirun.devices.smi_failure import read_failure
from davincirun.devices.smi_map import IdMap, read_map
from davincirun.devices.smi_table import InfoTable, read_info

_T = TypeVar("_T")


class SmiAnswers(NamedTuple):
    """What npu-smi said of the machine; None where it failed."""

    id_map: Optional[IdMap] = None
    table: Optional[InfoTable] = None
    notes: Tuple[str, ...] = ()  # why it failed, and which lines could not be understood


def ask_npu_smi(commands: Commands, path: str) -> SmiAnswers:
    """The map of ids and the table with health and processes, asked for at once."""
    map_call, table_call = commands.start(path, "info", "-m"), commands.start(path, "info")
    id_map, map_failure = read_answer(map_call.answer(), read_map)
    table, table_failure = read_answer(table_call.answer(), read_info)
    notes = [note for note in (map_failure, table_failure) if note]
    notes += [f"npu-smi info -m: {problem}" for problem in (id_map.problems if id_map else ())]
    notes += [f"npu-smi info: {problem}" for problem in (table.problems if table else ())]
    return SmiAnswers(id_map, table, tuple(notes))


def read_answer(answer: Answer, read: Callable[[str], _T]) -> Tuple[Optional[_T], str]:
    """The value in the answer, or None and a text that says what came instead."""
    problem = answer.failure or f"status {answer.status}"
    if answer.status == 0:
        try:
            return read(answer.stdout), ""
        except ReaderError as error:
            problem = error.problem
    failure = read_failure(answer.stdout + "\n" + answer.stderr)
    if failure:
        problem = f"{failure.text} ({failure.meaning})"
    elif answer.status:
        said = first_line(answer.stderr)[1] or first_line(answer.stdout)[1]
        problem += f", {said.strip()[:200]!r}" if said else ", and no message"
    return None, f"{answer.command_line}: {problem}"
