# SPDX-License-Identifier: MIT
"""scripts/kubernetes/rung.yaml: what it says fits together, and its arguments and probes work with the real program, which
runs as its user."""
import os
import re
import shutil
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request

import pytest

yaml = pytest.importorskip("yaml")
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RUNG = os.environ.get("RUNG_BIN") or f"{TOP}/build/release/rung"


@pytest.fixture(scope="module")
def manifest():
    """{kind: document}"""
    with open(f"{TOP}/scripts/kubernetes/rung.yaml", encoding="ascii") as file:
        return {one["kind"]: one for one in yaml.safe_load_all(file)}


@pytest.fixture(scope="module")
def pod(manifest):
    return manifest["Deployment"]["spec"]["template"]["spec"]


@pytest.fixture(scope="module")
def container(pod):
    only, = pod["containers"]
    return only


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(s|m)", text).groups()
    return int(number) * {"s": 1, "m": 60}[unit]


def test_names_fit(manifest, pod, container):
    labels = manifest["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert manifest["Deployment"]["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert manifest["Service"]["spec"]["selector"].items() <= labels.items()
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {port["targetPort"] for port in manifest["Service"]["spec"]["ports"]} <= ports.keys()
    probes = [container[name] for name in ("startupProbe", "readinessProbe", "livenessProbe")]
    assert {probe["httpGet"]["port"] for probe in probes} == ports.keys() == {"http", "metrics"}
    args = container["args"]
    assert args[args.index("--port") + 1] == str(ports["http"])
    assert args[args.index("--metrics") + 1] == f"*:{ports['metrics']}"
    assert manifest["Deployment"]["spec"]["template"]["metadata"]["annotations"]["prometheus.io/port"] == str(ports["metrics"])
    mount, = container["volumeMounts"]
    assert args[-1] == mount["mountPath"] and mount["readOnly"] and mount["name"] == pod["volumes"][0]["name"]
    assert pod["volumes"][0]["configMap"]["name"] == manifest["ConfigMap"]["metadata"]["name"]


def test_a_drain_has_time(pod, container):
    args = container["args"]
    needed = container["lifecycle"]["preStop"]["sleep"]["seconds"] + seconds(args[args.index("--drain-timeout") + 1])
    assert pod["terminationGracePeriodSeconds"] > needed


def test_it_may_do_little(pod, container):
    rights = container["securityContext"]
    assert rights == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert pod["securityContext"]["runAsNonRoot"] and not pod["automountServiceAccountToken"]
    with open(f"{TOP}/scripts/image", encoding="utf-8") as file:
        user = int(re.search(r"^USER = (\d+)$", file.read(), re.M)[1])
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["runAsGroup"] == user


def status(url):
    try:
        with urllib.request.urlopen(url, timeout=60) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become the user of the pod")
def test_its_probes_answer(manifest, pod, container):
    """The program with these arguments, except ports and the folder, as that user."""
    with tempfile.TemporaryDirectory(prefix="rung-pod-") as top:
        os.chmod(top, 0o755)
        folder = f"{top}/srv"
        os.mkdir(folder)
        for name, text in manifest["ConfigMap"]["data"].items():
            with open(f"{folder}/{name}", "w", encoding="ascii") as file:
                file.write(text)
        probe(pod, container, shutil.copy(RUNG, top), folder)


def probe(pod, container, binary, folder):
    args = list(container["args"])
    args[-1], args[args.index("--port") + 1], args[args.index("--metrics") + 1] = folder, "0", "*:0"
    user = pod["securityContext"]["runAsUser"]
    with subprocess.Popen([binary, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, user=user,
                          group=user, extra_groups=[]) as server:
        said = ""
        while "metrics at" not in said or "serving" not in said:
            line = server.stderr.readline()
            assert line, said
            said += line
        ports = {"http": re.search(r"at http://127\.0\.0\.1:(\d+)/", said)[1], "metrics": re.search(r"metrics at http://0\.0\.0\.0:(\d+)/", said)[1]}
        for name in ("startupProbe", "readinessProbe", "livenessProbe"):
            ask = container[name]["httpGet"]
            assert status(f"http://127.0.0.1:{ports[ask['port']]}{ask['path']}") == 200
        assert status(f"http://127.0.0.1:{ports['http']}/") == 200
        assert server.stdout.readline().startswith('{"time":')
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=60)
        assert server.returncode == 0
