# SPDX-License-Identifier: MIT
"""The metrics listener of a server under test, and a strict reader of both formats that it writes."""
import re
import socket

from .client import PATIENCE, Wire, require

OPEN = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PLAIN = "text/plain; version=0.0.4; charset=utf-8"
SAMPLE = re.compile(r'(rung_[a-z_]+)(?:\{((?:[a-z_]+="[^"\\\n]*",?)*)\})? (-?[0-9]+(?:\.[0-9]+)?)\Z')
LABEL = re.compile(r'([a-z_]+)="([^"]*)"')
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "info": ("_info",), "histogram": ("_bucket", "_sum", "_count")}


def address_of(server):
    """(host, port) or a path, from what the server says at its start."""
    said = server.wait_said("rung: metrics at ")
    path = re.search(r"metrics at unix:(.*)$", said)
    if path:
        return path[1]
    host, port = re.search(r"metrics at http://(.*):(\d+)/metrics$", said).groups()
    return host.strip("[]"), int(port)


def connect(address):
    if isinstance(address, str):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(PATIENCE)
        sock.connect(address)
        return sock
    return socket.create_connection(address, PATIENCE)


class Watch:
    """Asks for one path at a time, each on a connection of its own."""

    def __init__(self, server):
        self.address = address_of(server)

    def ask(self, target, **options):
        with Wire(self.address, secured=False) as wire:
            return wire.ask(target, **options)

    def health(self):
        reply = self.ask("/.rung/health")
        return reply.status, reply.body.decode()

    def read(self, plain=False):
        """{name with labels: number}, once the page has been checked."""
        reply = self.ask("/metrics", fields=["Accept: text/plain"] if plain else [])
        require(reply.status == 200 and reply["content-type"] == (PLAIN if plain else OPEN), "metrics:", reply)
        require(reply["cache-control"] == "no-cache" and reply["vary"] == "Accept", "metrics:", reply)
        return parse(reply.body.decode("ascii"), plain)


def parse(text, plain):
    """One family after the other: HELP, TYPE, perhaps UNIT, then its samples and no others."""
    lines = text.split("\n")
    require(lines.pop() == "", "the last line has no end")
    if not plain:
        require(lines.pop() == "# EOF", "the page may have been cut short")
    found, seen, family, kind = {}, set(), None, None
    for number, line in enumerate(lines):
        if line.startswith("# HELP "):
            family = line.split(" ")[2]
            kind = re.fullmatch(rf"# TYPE {family} (counter|gauge|histogram|info)", lines[number + 1])[1]
            require(family not in seen and len(line.split(" ")) > 3, "family twice, or without help:", line)
            seen.add(family)
        elif line.startswith("# UNIT "):
            unit = line.split(" ")[3]
            require(not plain and line.split(" ")[2] == family and family.endswith("_" + unit), "unit:", line)
        elif not line.startswith("# TYPE "):
            name, labels, value = SAMPLE.fullmatch(line).groups()
            names = (family,) if plain and kind != "histogram" else [family + suffix for suffix in SUFFIXES[kind]]
            require(name in names, "a sample of another family:", line)
            key = name + ("{" + ",".join(f'{k}="{v}"' for k, v in LABEL.findall(labels)) + "}" if labels else "")
            require(key not in found, "sample twice:", line)
            found[key] = float(value)
    check_laws(found)
    return found


def total(found, name):
    """The sum of a family's samples, whatever the labels."""
    return sum(value for key, value in found.items() if key.partition("{")[0] == name)


def check_hosts(found):
    """The sums over all hosts, if there are any."""
    def of_class(family, status):
        return sum(value for name, value in found.items() if name.startswith(family + "{") and f'status="{status}"' in name)
    if not any(name.startswith("rung_host_") for name in found):
        return
    for status in ("2xx", "3xx", "4xx", "5xx"):
        require(of_class("rung_host_requests_total", status) == of_class("rung_requests_total", status), "hosts:", status, found)
    require(total(found, "rung_host_sent_body_bytes_total") == found["rung_sent_body_bytes_total"], "bytes of hosts:", found)


def check_laws(found):
    """What docs/metrics.md promises of every page."""
    one = {name.removeprefix("rung_"): value for name, value in found.items()}
    require(one["connections_accepted_total"] == one["connections_open"] + one["connections_closed_total"]
            + one["connections_lost_total"], "accepted:", found)
    require(total(found, "rung_requests_total") == one["answers_open"] + one["answers_complete_total"]
            + one["answers_broken_total"], "answers:", found)
    buckets = [value for name, value in found.items() if name.startswith("rung_request_duration_seconds_bucket")]
    require(buckets == sorted(buckets) and buckets[-1] == one["request_duration_seconds_count"], "buckets:", found)
    require(buckets[-1] <= one["answers_complete_total"], "durations:", found)
    require(0 <= one["workers_running"] <= one["workers"], "workers:", found)
    check_hosts(found)
