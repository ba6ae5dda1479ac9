"""The process that calls ModelArts' `route_plan` library, which is closed and may print, crash or set variables."""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any, Dict, Sequence


def main(argv: Sequence[str]) -> int:
    """Write to `answer_path` what the library answers and the variables it has set, or the error it raised."""
    library, topology_path, rank_table_path, saved_path, server_id, answer_path = argv
    sys.path.append(library)
    before = dict(os.environ)
    try:
        planner = importlib.import_module("route_plan").RoutePlan
        answer: Dict[str, Any] = {
            "result": planner.init(
                topo_file=topology_path, rank_file=rank_table_path, save_rank_file=saved_path, cursrvip=server_id
            )
        }
        answer["environment"] = {name: value for name, value in os.environ.items() if before.get(name) != value}
        text = json.dumps(answer, default=str)  # numpy's numbers, for one
    except Exception as error:  # whatever the library raises, the job goes on with the plain table
        if os.environ.get("DEBUG_ROUTE_PLAN", "").lower() == "true":
            sys.excepthook(type(error), error, error.__traceback__)
        text = json.dumps({"error": f"{type(error).__name__}: {error}"})
    with open(answer_path, "w", encoding="utf-8") as file:
        file.write(text)
    return 0
