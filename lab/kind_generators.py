# SPDX-License-Identifier: MIT
"""kind_generators.py - generators as targets: each loads the same server, for the same time, over as many connections."""
import askers
import measures
import peers
from rig import PATIENCE_S, Broken, used_s

SERVER = "nginx-tuned"


def measure(context, target, scenario, seconds):
    folder, (ours, theirs) = measures.documents(context, scenario), measures.processors(scenario)
    name = target["generator"]
    argv = askers.ASKERS[name][0](context, scenario["connections"], seconds)
    with peers.Peer(scenario.get("server", SERVER), folder, processors=ours) as server:
        context.started(target, argv, server.config_text)
        peers.check_file(server.name, server.port, folder, "file.bin")
        before_s = used_s(server.pid)
        answer = askers.ask(name, argv, f"http://127.0.0.1:{server.port}/file.bin", theirs, seconds + PATIENCE_S)
        used_us = (used_s(server.pid) - before_s) * 1e6
        server.stop()
    if answer.failed:
        raise Broken(f"{name}: {answer.failed} requests failed, {answer.done} were answered")
    return {"figures": {"per_second": answer.done / answer.seconds, "mean_us": answer.mean_us,
                        "generator_us": answer.cpu_us / answer.done, "cpu_us": used_us / answer.done},
            "limiter": askers.limiter(used_us, answer)}
