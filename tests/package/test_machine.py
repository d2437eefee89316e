# SPDX-License-Identifier: MIT
"""The packages on a machine of their own: a guest that boots Debian's systemd installs them as an administrator does, runs the
service, upgrades it under load and removes it; another loads the modules that DKMS has built and signed.

The guest sees this system's files and cannot change them (lab/vm).
"""
import os
import re
import shutil
import subprocess
import sys

import pytest
from conftest import TOP, repacked
from test_packages import NEW, OLD, system  # noqa: F401 - a fixture

sys.path.insert(0, f"{TOP}/lab")
from rig import Broken  # noqa: E402 - found by the line above
from vm import guest, kernel  # noqa: E402

CACHE = os.environ.get("RUNG_VM") or f"{os.environ.get('RUNG_BUILD') or f'{TOP}/build'}/vm"
VERSION = "6.1"
LIMIT_S = 1200
EXPOSURE_MAX = 2.0
pytestmark = [pytest.mark.skipif(bool(guest.missing()), reason=str(guest.missing())),
              pytest.mark.skipif(os.geteuid() != 0, reason="only root may read all of this system's files")]

# Each step prints its name, its output and its status.
STEPS = r"""
export LC_ALL=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin SYSTEMD_COLORS=0 SYSTEMD_PAGER= PAGER=cat DEBIAN_FRONTEND=noninteractive
step() { name=$1; shift; echo "@ $name"; "$@" 2>&1; printf '\n= %s\n' "$?"; }
ask() { curl -sS --noproxy '*' --max-time 60 "http://127.0.0.1${1:-/hello.txt}"; }
once() { [ -n "$reached" ] && return 0; reached=1; "$@"; }
pid() { systemctl show -P MainPID rung.service; }
until_new() { for _ in $(seq 600); do now=$(pid); [ "$now" != 0 ] && [ "$now" != "$1" ] && return 0; sleep 0.1; done; return 1; }
under_load() { # under_load COMMAND...: rung load connects for each request, meanwhile the command runs three times, or with `once` once
    rung load -t 1 -c 4 --requests-per-connection 1 --timeout 30s --duration 25s http://127.0.0.1/hello.txt >/run/load 2>&1 &
    load=$! reached=
    for _ in 1 2 3; do sleep 5; "$@" || return 1; done
    wait $load
    cat /run/load
}
"""


def booted(command, share, **more):
    try:
        one = kernel.fetch(VERSION, CACHE)
    except Broken as error:
        pytest.skip(str(error))
    return guest.boot(guest.Job(command, share=str(share), root="/", cpus=2, memory_mib=1024, limit_s=LIMIT_S, **more), one)


def steps(text):
    """{step: (status, output)}"""
    return {name: (int(status), said.strip()) for name, said, status in re.findall(r"(?ms)^@ ([\w-]+)\n(.*?)^= (\d+)$", text)}


SERVICE = STEPS + r"""
step booted systemctl is-system-running --wait
rm -f /var/lib/man-db/auto-update # dpkg would have all manual pages read, over the shared folder
(cd / && tar xf /share/dpkg.tar)  # and so would be its own files: from memory it takes seconds instead of minutes
step install dpkg -i /share/old.deb
step idle sh -c 'systemctl is-active rung.socket rung.service; systemctl is-enabled rung.socket rung.service'
mkdir -p /srv/www && echo 'Hello, world' >/srv/www/hello.txt
step start systemctl enable --now rung.socket rung.service
step ask ask
first=$(pid)
step user ps -o user:32=,uid= -p "$first"
step sandbox grep -E '^(NoNewPrivs|Seccomp|CapEff|CapBnd):' "/proc/$first/status"
step exposure systemd-analyze security --no-pager rung.service
step journal journalctl -u rung.service -o cat --no-pager
step socket ss -ltnpH 'sport = :80'
step reload systemctl reload rung.service
step same test "$(pid)" = "$first"
[ "$first" = 0 ] || kill -KILL "$first" # 0 would be all that runs here
step restarted until_new "$first"
step ask-again ask
step listing sh -c "curl -sS --noproxy '*' -o /dev/null -w '%{http_code}' http://127.0.0.1/"
step stop systemctl stop rung.service
step stopped systemctl is-active rung.service rung.socket
step woken ask
step restarts under_load systemctl restart rung.service
before=$(pid)
step upgrade under_load once dpkg -i /share/new.deb
step version dpkg-query -W -f '${Version}' rung
step replaced sh -c "test $(pid) != $before && test $(pid) != 0"
step ask-new ask
mkdir -p /etc/systemd/system/rung.service.d /srv/other && echo other >/srv/other/hello.txt
printf '[Service]\nExecStart=\nExecStart=/usr/bin/rung serve --log json --metrics 9100 /srv/other\n' >/etc/systemd/system/rung.service.d/override.conf
systemctl daemon-reload
step override systemctl restart rung.service
step ask-other ask
step health sh -c "curl -sS --noproxy '*' http://127.0.0.1:9100/.rung/health"
step logged journalctl -u rung.service -o cat -n 1 --no-pager
mkdir -p /etc/tls /etc/systemd/system/rung.socket.d
renew() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=a.test -addext subjectAltName=DNS:a.test \
    -out /etc/tls/cert.pem -keyout /etc/tls/key.pem 2>/dev/null; chmod 600 /etc/tls/key.pem; }
secure() { curl -sS --noproxy '*' --max-time 60 -L --cacert /etc/tls/cert.pem -w '%{num_redirects} %{http_code}' --resolve a.test:80:127.0.0.1 \
    --resolve a.test:443:127.0.0.1 http://a.test/hello.txt; }
renew
printf '[Socket]\nListenStream=443\n' >/etc/systemd/system/rung.socket.d/override.conf
cat >/etc/systemd/system/rung.service.d/override.conf <<'end'
@UNIT@end
systemctl daemon-reload
systemctl stop rung.service
systemctl restart rung.socket
step https secure
renew
step renewed sh -c 'systemctl restart rung.service'
step https-again secure
step key ls -l /etc/tls/key.pem
rm -r /etc/systemd/system/rung.service.d /etc/systemd/system/rung.socket.d
systemctl daemon-reload
last=$(pid)
step purge dpkg --purge rung
sleep 1
step gone sh -c "! kill -0 $last"
step left find /etc /var/lib /lib/systemd /usr/bin /usr/share/man/man1 -name '*rung*' -not -name 'rung-guest.service' -not -path '/var/lib/dpkg/*'
step units systemctl list-units --all --no-legend 'rung.*'
step closed sh -c "! curl -sS --noproxy '*' --max-time 5 http://127.0.0.1/"
"""


@pytest.fixture(scope="module")
def machine(debs, tmp_path_factory):
    missing = [tool for tool in (guest.SYSTEMD, "curl", "openssl", "ps", "ss") if not shutil.which(tool)]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    share = tmp_path_factory.mktemp("machine")
    shutil.copy(debs["rung"], share / "old.deb")
    shutil.copy(repacked(debs["rung"], share, OLD, NEW), share / "new.deb")
    subprocess.run(["tar", "cf", share / "dpkg.tar", "-C", "/", "var/lib/dpkg/info", "var/lib/dpkg/status"], check=True)
    with open(f"{TOP}/docs/service.md", encoding="utf-8") as file:
        unit = re.search(r"(?s)<!-- drop-in: https -->\n```ini\n(.*?)```", file.read())[1]
    result = booted(SERVICE.replace("@UNIT@", unit), share, systemd=True)
    print(result.output, result.console)
    assert not result.complaints, result.complaints
    return steps(result.output)


def done(machine, *names):
    for name in names:
        assert machine[name][0] == 0, (name, machine[name])
    return machine[names[-1]][1]


def load(said):
    """The answers that clients got while something happened three times, if none of them met an error."""
    assert re.search(r"(?m)^ +errors +none$", said), said
    return int(re.search(r"(?m)^ +answers +([\d,]+)", said)[1].replace(",", ""))


# shows U19
def test_it_boots_and_installing_starts_nothing(machine):
    assert machine["booted"][1] in ("running", "degraded")
    done(machine, "install")
    assert machine["idle"][1].split() == ["inactive", "inactive", "disabled", "disabled"]


# shows U19
def test_the_service_serves(machine):
    done(machine, "start")
    assert done(machine, "ask") == "Hello, world"
    assert "rung: serving /srv/www" in done(machine, "journal")
    assert "systemd" in done(machine, "socket") and "rung" in machine["socket"][1]


# shows U19
def test_it_may_do_little(machine):
    assert done(machine, "user").split()[0] == "www-data"
    fields = dict(re.findall(r"(\w+):\s*(\S+)", done(machine, "sandbox")))
    assert (fields["NoNewPrivs"], fields["Seccomp"], int(fields["CapEff"], 16), int(fields["CapBnd"], 16)) == ("1", "2", 0, 0)
    assert float(re.search(r"Overall exposure level for rung\.service: ([0-9.]+)", done(machine, "exposure"))[1]) <= EXPOSURE_MAX


def test_reload_crash_and_stop(machine):
    done(machine, "reload", "same", "restarted")
    assert done(machine, "ask-again") == "Hello, world"
    done(machine, "stop")
    assert machine["stopped"][1].split() == ["inactive", "active"]
    assert done(machine, "woken") == "Hello, world"  # the socket started it


def test_restarts_lose_no_request(machine):
    assert load(done(machine, "restarts")) > 100


def test_an_upgrade_loses_no_request(machine):
    """The new program serves then, without another restart."""
    assert load(done(machine, "upgrade")) > 100
    assert done(machine, "version") == NEW
    assert done(machine, "replaced", "ask-new") == "Hello, world"


def test_another_folder_and_options(machine):
    assert done(machine, "override", "ask-other") == "other" and done(machine, "health") == "ok"
    assert done(machine, "logged").startswith('{"time":')


# shows U87
def test_it_lists_no_folder(machine):
    assert done(machine, "listing") == "403"


# shows U88, U89
def test_https_with_a_key_that_only_root_can_read(machine):
    """As docs/service.md says; a client that asks by http is redirected.  A restart takes a renewed certificate."""
    assert done(machine, "key").startswith("-rw------- 1 root")
    assert done(machine, "https") == "Hello, world\n1 200"
    done(machine, "renewed")
    assert done(machine, "https-again") == "Hello, world\n1 200"


# shows U23
def test_removed_while_it_runs(machine):
    done(machine, "purge", "gone", "closed")
    assert done(machine, "left") == "" and done(machine, "units") == ""


# --- Modules ------------------------------------------------------------------------------------------------

MODULES = STEPS + r"""
mkdir -p "/lib/modules/$(uname -r)/updates/dkms" /srv/www && cp /share/*.ko "/lib/modules/$(uname -r)/updates/dkms/"
echo 'Hello, world' >/srv/www/hello.txt
step depmod depmod -a
step load modprobe rung_http root=/srv/www port=80
step ask ask
step signed sh -c 'cat /sys/module/rung_http/taint'
step unload modprobe -r rung_http rung_core
step left sh -c '! grep rung /proc/modules'
step echo modprobe rung_echo port=7777
step echoed sh -c 'echo hi | timeout 5 bash -c "exec 3<>/dev/tcp/127.0.0.1/7777; cat >&3; head -c 3 <&3"'
step drop modprobe rung_drop
step all-gone modprobe -r rung_echo rung_drop rung_core
"""


def test_modules_of_dkms(system, debs, tmp_path):
    """rung-dkms is installed, DKMS builds and signs the modules, and a kernel of that version loads them."""
    if not shutil.which("dkms"):
        pytest.skip("dkms is not installed")
    try:
        release = kernel.fetch(VERSION, CACHE).release
    except Broken as error:
        pytest.skip(str(error))
    if not os.path.exists(f"/lib/modules/{release}/build/Module.symvers"):
        pytest.skip(f"the headers of the guest's kernel, {release}, are not installed: linux-headers-amd64")
    system.run("dpkg", "-i", system.put(debs["rung-dkms"], "dkms.deb"))
    found = system.run("find", f"/lib/modules/{release}/updates/dkms", "-name", "rung_*").split()
    for path in found:
        name = os.path.basename(path)
        shutil.copy(f"{system.view()}{os.path.realpath('/lib')}{path.removeprefix('/lib')}", tmp_path / name)
        assert "~Module signature appended~" in (tmp_path / name).read_bytes()[-40:].decode("ascii", "replace")
    assert len(found) == 4
    result = booted(MODULES, tmp_path)
    print(result.output)
    assert not result.complaints, result.complaints
    said = steps(result.output)
    assert {name: status for name, (status, _) in said.items() if status} == {}, result.output
    assert said["ask"][1] == "Hello, world" and said["echoed"][1] == "hi"
