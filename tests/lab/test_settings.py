# SPDX-License-Identifier: MIT
"""settings.py: settings take effect and are put back however the experiment ends; what cannot be set is refused.

The machine is a folder of files; address randomisation is real, because it is an attribute of the process.
"""
import os
import resource
import signal
import subprocess
import sys

import pytest
from command import TOP
from settings import JOURNAL, Randomisation, Refused, settings

CPU, NET = "sys/devices/system/cpu", "proc/sys/net"
FILES = {f"{CPU}/cpu0/cpufreq/scaling_governor": "powersave", f"{CPU}/cpu1/cpufreq/scaling_governor": "schedutil",
         f"{CPU}/intel_pstate/no_turbo": "0", f"{NET}/core/somaxconn": "128",
         f"{NET}/ipv4/tcp_congestion_control": "cubic", f"{NET}/ipv4/ip_local_port_range": "32768\t60999"}
ALL = {"governor": "performance", "turbo": "off", "somaxconn": 4096, "ip_local_port_range": [1024, 65000],
       "net": {"ipv4": {"tcp_congestion_control": "reno"}}}
HOLD = """import sys, time; sys.dont_write_bytecode = True; sys.path.insert(0, "lab")
from settings import settings
with settings({"somaxconn": 4096, "turbo": "off"}, sys.argv[1]):
    print("set", flush=True); time.sleep(60)"""


@pytest.fixture
def root(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    (tmp_path / "run").mkdir()
    return str(tmp_path)


def value(root, name):
    with open(os.path.join(root, name), encoding="ascii") as file:
        return file.read().strip()


def put(root, name, text):
    with open(os.path.join(root, name), "w", encoding="ascii") as file:
        file.write(text + "\n")


def as_before(root):
    return {name: value(root, name).split() for name in FILES} == {name: text.split() for name, text in FILES.items()}


# shows E17
def test_set_and_put_back(root):
    with settings(ALL, root) as told:
        assert {value(root, f"{CPU}/cpu{at}/cpufreq/scaling_governor") for at in (0, 1)} == {"performance"}
        assert value(root, f"{CPU}/intel_pstate/no_turbo") == "1" and value(root, f"{NET}/core/somaxconn") == "4096"
        assert value(root, f"{NET}/ipv4/ip_local_port_range") == "1024 65000"
        assert value(root, f"{NET}/ipv4/tcp_congestion_control") == "reno"
        assert value(root, JOURNAL)
    assert as_before(root) and value(root, JOURNAL) == ""
    assert told == {"governor": "was powersave and schedutil, set to performance, put back",
                    "turbo": "was on, set to off, put back", "somaxconn": "was 128, set to 4096, put back",
                    "ip_local_port_range": "was 32768 60999, set to 1024 65000, put back",
                    "net.ipv4.tcp_congestion_control": "was cubic, set to reno, put back"}


def test_nothing_wanted_touches_nothing(root):
    with settings({}, root) as told:
        assert told == {} and not os.path.exists(os.path.join(root, JOURNAL))


def test_what_is_so_already_is_left(root):
    with settings({"somaxconn": 128}, root) as told:
        put(root, f"{NET}/core/somaxconn", "129")
    assert told == {"somaxconn": "was 128 already"} and value(root, f"{NET}/core/somaxconn") == "129"


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_put_back_when_it_fails(root, failure):
    with pytest.raises(failure), settings(ALL, root):
        raise failure
    assert as_before(root)


@pytest.mark.parametrize("wanted, word", [
    ({"somaxconn": 9, "governor": "performance"}, "governor cannot be set to performance: this machine has no"),
    ({"somaxconn": 9, "tcp_tw_reuse": 1}, "tcp_tw_reuse cannot be set to 1"),
    ({"somaxconn": 9, "warp": 9}, "warp: there is no such setting"),
    ({"somaxconn": 9, "net/../x.y": 9}, "there is no such setting"),
    ({"somaxconn": 9, "processors": "none"}, 'no list of processors'),
    ({"somaxconn": 9, "processors": "4000"}, "processors cannot be set to 4000"),
    ({"somaxconn": 9, "descriptors": 10 ** 9}, "descriptors cannot be set to"),
    ({"somaxconn": 9, "aslr": "maybe"}, 'neither "on" nor "off"'),
    ({"somaxconn": 9, "optional": ["turbo"]}, "optional names what is not set: turbo")])
# shows E17
def test_refused(root, wanted, word):
    """The request is refused as a whole: settings already made are put back."""
    for name in ("cpu0", "cpu1"):
        os.remove(os.path.join(root, f"{CPU}/{name}/cpufreq/scaling_governor"))
    with pytest.raises(Refused, match="(?s).*" + word.replace("(", ".")), settings(wanted, root):
        pytest.fail("it was not refused")
    assert value(root, f"{NET}/core/somaxconn") == "128"


def test_refused_when_it_does_not_hold(root, monkeypatch):
    """The file accepts the value, but the value does not take effect."""
    import settings as module
    monkeypatch.setattr(module.File, "write", lambda self, text: None)
    with pytest.raises(Refused, match="it was taken, and is 128"), settings({"somaxconn": 9}, root):
        pytest.fail("it was not refused")


def test_optional_is_done_without_and_said(root):
    wanted = {"tcp_tw_reuse": 1, "somaxconn": 9, "optional": ["tcp_tw_reuse"]}
    with settings(wanted, root) as told:
        assert value(root, f"{NET}/core/somaxconn") == "9"
    assert told["tcp_tw_reuse"] == "not set to 1, and done without: this machine has no such knob"
    assert told["somaxconn"] == "was 128, set to 9, put back"


def test_what_somebody_else_changed_meanwhile_is_theirs(root):
    with settings({"somaxconn": 9}, root) as told:
        put(root, f"{NET}/core/somaxconn", "1000")
    assert value(root, f"{NET}/core/somaxconn") == "1000" and "became 1000 meanwhile" in told["somaxconn"]


def held(root):
    def usual():  # the parent of the tests may ignore some, as nohup does
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
    process = subprocess.Popen([sys.executable, "-c", HOLD, root], cwd=TOP, stdout=subprocess.PIPE, text=True, preexec_fn=usual)
    assert process.stdout.readline() == "set\n" and value(root, f"{NET}/core/somaxconn") == "4096"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_put_back_after_a_signal(root, number):
    with held(root) as process:
        process.send_signal(number)
        assert process.wait(20) != 0
    assert as_before(root)


# shows E17
def test_put_back_at_the_next_start_after_a_kill(root):
    with held(root) as process:
        with pytest.raises(Refused, match="another run of the lab"), settings({"somaxconn": 5}, root):
            pytest.fail("two at once")
        with settings({}, root) as told:  # a run that changes nothing need not wait
            assert told == {}
        process.kill()
    assert value(root, f"{NET}/core/somaxconn") == "4096"
    put(root, f"{CPU}/intel_pstate/no_turbo", "0")  # changed by hand in between
    with settings({}, root) as told:
        assert as_before(root)
    assert len(told) == 1 and "was killed and left 4096; put back to 128" in told["left behind"]
    with settings({}, root) as told:
        assert told == {}


@pytest.mark.parametrize("text", ["", "{", '{"boot": "another", "net": "net:[1]", "rows": [{}]}'])
def test_a_journal_of_another_boot_or_of_nothing(root, text):
    put(root, JOURNAL, text)
    with settings({"somaxconn": 9}, root) as told:
        assert list(told) == ["somaxconn"]
    assert as_before(root)


def test_without_a_place_for_the_journal_nothing_is_changed(root):
    os.rmdir(os.path.join(root, "run"))
    with pytest.raises(Refused, match="could not be written down"), settings({"somaxconn": 9}, root):
        pytest.fail("it was not refused")
    assert as_before(root)


def test_what_is_inherited_is_put_back(root):
    before, soft = os.sched_getaffinity(0), resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    first = min(before)
    with settings({"processors": str(first), "descriptors": soft - 1}, root):
        assert os.sched_getaffinity(0) == {first} and resource.getrlimit(resource.RLIMIT_NOFILE)[0] == soft - 1
        assert not os.path.exists(os.path.join(root, JOURNAL))  # the settings are not the machine's
    assert os.sched_getaffinity(0) == before and resource.getrlimit(resource.RLIMIT_NOFILE)[0] == soft


def test_addresses_for_real(root):
    """Programs that we start have fixed addresses, the machine's own setting stays, and afterwards ours is put back."""
    if Randomisation().read() == "off":
        pytest.skip("this machine does not randomise addresses")
    try:
        with settings({"aslr": "off"}, root) as told:
            maps = [subprocess.run(["cat", "/proc/self/maps"], stdout=subprocess.PIPE, check=True, timeout=20).stdout
                    for _ in range(3)]
            assert len(set(maps)) == 1
            assert value("/", "proc/sys/kernel/randomize_va_space") != "0"
    except Refused as error:
        pytest.skip(f"personality() is not allowed here: {error}")
    assert told == {"aslr": "was on, set to off, put back"} and Randomisation().read() == "on"
