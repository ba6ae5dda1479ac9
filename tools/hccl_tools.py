#!/usr/bin/env python3
"""Writes the rank table of this server: hccl_tools.py --device_num "[0,8)" --visible_devices 0,1,2 --server_ip IP."""

from __future__ import annotations

import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.realpath(__file__))))  # a checkout needs no installation

from davincirun.errors import DavincirunError
from davincirun.ranktable import hand_tools
from davincirun.ranktable.inventory import id_list
from davincirun.ranktable.rules.ranks import is_loopback
from davincirun.ranktable.writing import dumps
from davincirun.ranktable_files import write_output
from davincirun.ranktable_generate import own_server_id


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device_num", default="[0,8)", help="the devices, counted among the visible ones")
    parser.add_argument("--visible_devices", default="", help="the physical ids; as many as needed from 0 by default")
    parser.add_argument("--server_ip", default="", help="this server's address, if the one found is wrong")
    options = parser.parse_args()
    indexes = hand_tools.device_range(options.device_num)
    visible = id_list(options.visible_devices) if options.visible_devices else list(range(indexes[-1] + 1))
    device_ids = hand_tools.chosen_devices(indexes, visible)
    server_id = options.server_ip or own_server_id()
    if is_loopback(server_id):
        print(
            f"hccl_tools: {server_id} is a loopback address, by which no other server finds this one", file=sys.stderr
        )
    document = hand_tools.server_table(server_id, device_ids, hand_tools.local_addresses(device_ids, os.environ))
    path = os.path.abspath(hand_tools.server_table_name(indexes, server_id))
    write_output(path, dumps(document))
    print("Completed: hccl file was save in :", path)


if __name__ == "__main__":
    try:
        main()
    except DavincirunError as error:
        sys.exit(f"hccl_tools: {error}")
