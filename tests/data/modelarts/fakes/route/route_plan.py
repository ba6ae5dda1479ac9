"""Stands in for ModelArts' closed `route_plan` library; FAKE_ROUTE says how it behaves."""

import json
import os
import signal


class RoutePlan:
    @staticmethod
    def init(topo_file, rank_file, save_rank_file, cursrvip):
        behaviour = os.environ.get("FAKE_ROUTE", "plans")
        print("route planning talks on stdout")
        if behaviour == "raises":
            raise LookupError("no such plane")
        if behaviour == "crashes":
            os.kill(os.getpid(), signal.SIGSEGV)
        if behaviour == "hangs":
            signal.pause()
        if behaviour == "declines":
            return False, None, None
        with open(topo_file) as topology, open(rank_file) as table:
            saved = {"topology": json.load(topology), "table": json.load(table)}
        if behaviour != "saves nothing":
            with open(save_rank_file, "w") as file:
                json.dump(saved, file)
        os.environ["RANK_AFTER_ACC"] = "3"
        return True, [("3", "1", "192.168.7.12"), ("2", "0", "192.168.7.11")], cursrvip
