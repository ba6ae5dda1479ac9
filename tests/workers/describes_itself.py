"""describes_itself.py FOLDER [ARG...]: writes what it is into FOLDER/RANK.json."""

import json
import os
import resource
import sys

with open("/proc/self/status") as file:
    status = dict(line.rstrip("\n").split(":\t", 1) for line in file)
table_path = os.environ.get("RANK_TABLE_FILE", "")
description = {
    "argv": sys.argv[2:],
    "env": dict(os.environ),
    "cwd": os.getcwd(),
    "descriptors": sorted(int(fd) for fd in os.listdir("/proc/self/fd"))[:-1],  # the last is the listing's own
    "blocked": int(status["SigBlk"], 16),
    "ignored": int(status["SigIgn"], 16),
    "open_files": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    "is_group_leader": os.getpgid(0) == os.getpid() == os.getsid(0),
    "table_is_link": os.path.islink(table_path),
    "table": open(table_path).read() if os.path.isfile(table_path) else None,
}
with open(os.path.join(sys.argv[1], os.environ["RANK_ID"] + ".json"), "w") as file:
    json.dump(description, file)
