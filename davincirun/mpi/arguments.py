"""Options of mpirun in the one spelling that Open MPI 4.1 and 5.0 understand alike.

Measured with 4.1.4, 4.1.8 and 5.0.8 to 5.0.11: 5.0 ignores or refuses several options with a single dash
(`-mca plm_rsh_args` without a word, `-bind-to` from 5.0.10 on), 4.1 refuses `--map-by=slot`, and 5.0.8 prints the
value in `-x NAME=VALUE` on stderr. Two dashes, two words and `-x NAME` with the value in mpirun's own environment
are right everywhere.
"""

from __future__ import annotations

import re
import shlex
from typing import Dict, List, Mapping, Sequence, Set, Tuple

from davincirun.errors import UsageError
from davincirun.values import Value

Group = Tuple[str, ...]  # an option with its values, or a single word

_ONE_VALUE = (
    "am bind-to c cpu-list cpu-set cpus-per-proc cpus-per-rank default-hostfile display H host hostfile launch-agent"
    " machinefile map-by max-restarts n N np npernode npersocket output output-filename path personality prefix"
    " preload-files rank-by rankfile report-pid report-uri runtime-options stdin timeout tune wdir x xterm"
)
_VALUES = {**dict.fromkeys(("mca", "gmca", "omca", "pmixmca", "prtemca"), 2), **dict.fromkeys(_ONE_VALUE.split(), 1)}
_OTHER_NAMES = {"-rf": "--rankfile", "-wd": "--wdir", "--wd": "--wdir"}
_DROPPED = ("-q", "-quiet", "--quiet", "-novm", "--novm")  # 5.0 refuses them, and they only silence or do nothing
_SINGLE = ("--bind-to", "--map-by", "--rank-by", "--stdin", "--hostfile", "-np")  # 5.0: "listed more than once"
_SAME = {"-n": "-np", "-c": "-np", "--n": "-np", "--np": "-np", "--machinefile": "--hostfile"}
# In mpirun's own environment these would change mpirun itself.
_STAYS_ON_THE_LINE = re.compile(r"PATH$|LD_|OMPI_|OPAL_|PMIX_|PRTE_|ORTE_")


class Rewritten(Value):
    """One OPENMPI_ variable's options, as they are passed on."""

    groups: Tuple[Group, ...]
    variables: Dict[str, str]  # for mpirun's environment
    notes: Tuple[str, ...]  # what was changed, and why


def untouched(variable: str, text: str) -> Rewritten:
    """The words as a shell would part them."""
    return Rewritten(tuple((word,) for word in _words(variable, text)), {}, ())


def rewritten(variable: str, text: str, environ: Mapping[str, str]) -> Rewritten:
    """The options in `text` in their common spelling. UsageError: a quote isn't closed."""
    groups: List[Group] = []
    variables: Dict[str, str] = {}
    notes: List[str] = []
    for before, spelled in _grouped(_words(variable, text)):
        group = spelled
        if group[0] in _DROPPED:
            notes.append(f"{variable}: {group[0]} left out: Open MPI 5 refuses it")
            continue
        if group[0] == "-x" and len(group) == 2:
            name, equals, value = group[1].partition("=")
            if equals and not _STAYS_ON_THE_LINE.match(name):
                variables[name] = value
                group = ("-x", name)
            elif not equals and name not in environ:
                notes.append(f"{variable}: -x {name} left out: it isn't set, and mpirun would only warn")
                continue
        elif before != group:
            notes.append(f"{variable}: {_shown(before)} became {_shown(group)}: right for Open MPI 4 and 5 alike")
        groups.append(group)
    if variables:
        names = ", ".join(sorted(variables))
        notes.append(f"{variable}: -x NAME=VALUE became -x NAME with the value in mpirun's environment: {names}")
    return Rewritten(tuple(groups), variables, tuple(notes))


def without_repeats(groups: Sequence[Group]) -> Tuple[Tuple[Group, ...], Tuple[str, ...]]:
    """The groups without options that a later one replaces and without a second `-x NAME`; and what was left out."""
    kept: List[Group] = []
    notes: List[str] = []
    seen: Set[Group] = set()
    for group in reversed(groups):
        key = _key(group)
        if key and key in seen:
            if key[0] != "-x":
                notes.append(f"{_shown(group)} left out: {_shown(key)} is given again after it")
            continue
        if key:
            seen.add(key)
        kept.append(group)
    return tuple(reversed(kept)), tuple(reversed(notes))


def parameters(groups: Sequence[Group]) -> Dict[str, str]:
    """The MCA parameters that `groups` set."""
    return {group[1]: group[2] for group in groups if group[0] == "--mca" and len(group) == 3}


def _words(variable: str, text: str) -> List[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{variable}: {text!r} can't be parted into words as a shell does: {error}") from None


def _grouped(words: Sequence[str]) -> List[Tuple[Group, Group]]:
    """Each option with its values: as it was, and in the common spelling."""
    pairs = []
    position = 0
    while position < len(words):
        word = words[position]
        option, more = _spelled(word)
        count = _VALUES.get(option.lstrip("-"), 0) - len(more) if option.startswith("-") else 0
        values = tuple(words[position + 1 : position + 1 + max(count, 0)])
        pairs.append(((word, *values), (option, *more, *values)))
        position += 1 + len(values)
    return pairs


def _spelled(word: str) -> Tuple[str, Group]:
    """An option's common name, and the value that was joined to it by `=`."""
    name, equals, value = word.partition("=")
    if not re.fullmatch(r"--?[A-Za-z][\w-]*", name) or name in _DROPPED:
        return word, ()
    name = _OTHER_NAMES.get(name, name)
    if len(name) > 2 and name[1] != "-" and name != "-np":
        name = "-" + name
    if not equals:
        return name, ()
    return (name, (value,)) if name.lstrip("-") in _VALUES else (f"{name}={value}", ())


def _key(group: Group) -> Group:
    """What two groups have in common of which the last alone counts; empty: any number may stand side by side."""
    name = _SAME.get(group[0], group[0])
    if name in _SINGLE and len(group) == 2:
        return (name,)
    if name == "-x" and len(group) == 2:
        return (name, group[1].partition("=")[0])
    return ("--mca", group[1]) if name == "--mca" and len(group) == 3 else ()


def _shown(group: Group) -> str:
    return " ".join(map(shlex.quote, group))
