"""What machines and pages do to the tools' answers changes nothing of what is read."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict

import pytest
from test_corpus_npu import INFO, MAPS, READINGS, text_of

from davincirun.devices.smi_map import read_map
from davincirun.devices.smi_table import HEALTH_WORDS, read_info

WARNING = "[WARNING]The driver package may not be completely installed, please check.\n"
READERS: Dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(INFO, read_info),
    **dict.fromkeys(MAPS, read_map),
    **{number: read for number, (read, _) in READINGS.items()},
}
HARMLESS: Dict[str, Callable[[str], str]] = {
    "line ends of another system": lambda text: text.replace("\n", "\r\n"),
    "TABs stripped": lambda text: "\n".join(line.lstrip("\t") for line in text.split("\n")),
    "TABs as blanks": lambda text: text.expandtabs(8),
    "indented": lambda text: "\n".join(f"    {line}" if line else line for line in text.split("\n")),
    "a warning above": lambda text: WARNING + text,
    "a warning below": lambda text: text.rstrip("\n") + "\n" + WARNING,
    "blank lines": lambda text: "\n\n" + text.replace("\n", "\n\n", 3) + "\n\n",
    "trailing blanks": lambda text: text.replace("\n", "   \n"),
    "no end of the last line": lambda text: text.rstrip(),
    "a byte order mark": lambda text: "\ufeff" + text,
}


@pytest.mark.parametrize("variation", HARMLESS)
def test_all_answers_are_read_as_they_were_before(variation: str) -> None:
    for number, read in READERS.items():
        assert read(HARMLESS[variation](text_of(number))) == read(text_of(number)), number


def without_names(text: str) -> str:
    health = "|".join(HEALTH_WORDS)
    in_one_cell = rf"(?m)^(\| *\d+ +)(\S[^|]*?)( *\| *(?:{health}) *\|)"
    in_its_own = rf"(?m)^(\| *\d+ *\| *)(\S[^|]*?)( *\| *(?:{health}) *\|)"
    for pattern in (in_one_cell, in_its_own):
        text = re.sub(pattern, lambda row: row[1] + " " * len(row[2]) + row[3], text)
    return text


@pytest.mark.parametrize("number", INFO)
def test_cards_without_names_are_cards(number: str) -> None:
    before, after = read_info(text_of(number)), read_info(without_names(text_of(number)))
    assert after.problems == ()
    assert [(chip.npu_id, chip.chip_id, chip.health) for chip in after.chips] == [
        (chip.npu_id, chip.chip_id, chip.health) for chip in before.chips
    ]
    assert {chip.name for chip in after.chips} == {None}


@pytest.mark.parametrize("word", ["Warning", "Alarm", "Critical", "UNKNOWN", "Offline"])
def test_every_health_word_is_one_new_ones_too(word: str) -> None:
    for number in INFO:
        table = read_info(re.sub(r"\| *OK *\|", f"| {word} |", text_of(number)))
        assert table.problems == (), number
        assert len(table.chips) == len(read_info(text_of(number)).chips)
        assert {chip.health for chip in table.chips} <= {word, "Alarm", "Warning"}


@pytest.mark.parametrize("number", INFO)
def test_borders_and_widths_mean_nothing(number: str) -> None:
    bare = "\n".join(line for line in text_of(number).split("\n") if not line.startswith("+"))
    assert read_info(bare) == read_info(text_of(number))
    assert read_info(re.sub("  +", " ", text_of(number))) == read_info(text_of(number))


@pytest.mark.parametrize("number", MAPS)
def test_a_map_whose_columns_shrank_to_single_blanks_is_read(number: str) -> None:
    squeezed = "\n".join(re.sub("[ \t]+", " ", line.strip()) for line in text_of(number).split("\n"))
    assert read_map(squeezed) == read_map(text_of(number))
