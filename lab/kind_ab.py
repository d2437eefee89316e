# SPDX-License-Identifier: MIT
"""kind_ab.py - a server under ApacheBench: `ab -n REQUESTS -c CONNECTIONS -k`, as its users run it.

If requests fail, their number is the only figure: the speed of the others means nothing.
"""
import askers
import measures
import peers
from rig import PATIENCE_S, Broken, used_s

REQUESTS = 10000


def measure(context, target, scenario, _seconds):
    folder, requests = measures.documents(context, scenario), scenario.get("requests", REQUESTS)
    argv = ["ab", "-q", "-n", str(requests), "-c", str(scenario["connections"]), "-k"]
    with measures.open_target(context, target, scenario, folder) as server:
        peers.check_file(target["name"], server.port, folder, "file.bin")
        before_s = used_s(server.pid)
        answer = askers.ask("ab", argv, f"http://127.0.0.1:{server.port}/file.bin", measures.processors(scenario)[1],
                            PATIENCE_S + requests / 100)
        used_us = (used_s(server.pid) - before_s) * 1e6
        server.stop()
    if answer.done != requests:
        raise Broken(f"ab: {answer.done} of {requests} were answered")
    if answer.failed:
        return {"figures": {"failed": answer.failed}, "limiter": None}
    return {"figures": {"per_second": answer.done / answer.seconds, "mean_us": answer.mean_us, "failed": answer.failed,
                        "cpu_us": used_us / requests, "generator_us": answer.cpu_us / requests},
            "limiter": askers.limiter(used_us, answer)}
