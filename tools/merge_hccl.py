#!/usr/bin/env python3
"""Joins rank tables of single servers into one, numbering ranks in the order of the files: merge_hccl.py A B ..."""

from __future__ import annotations

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.realpath(__file__))))  # a checkout needs no installation

from davincirun.errors import DavincirunError
from davincirun.ranktable import hand_tools
from davincirun.ranktable.writing import dumps
from davincirun.ranktable_files import load_part, write_output


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file_list", nargs="+", metavar="FILE", help="rank tables, in rank order")
    document = hand_tools.merged_table([load_part(path) for path in parser.parse_args().file_list])
    path = os.path.abspath(hand_tools.merged_table_name(document))
    write_output(path, dumps(document))
    print("Completed: hccl file was save in :", path)


if __name__ == "__main__":
    try:
        main()
    except DavincirunError as error:
        sys.exit(f"merge_hccl: {error}")
