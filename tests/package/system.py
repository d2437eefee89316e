# SPDX-License-Identifier: MIT
"""system.py - this machine with a layer above it: what is installed there is gone when the tests end.

A process in a mount namespace of its own holds an overlay: this machine's root below, a folder in memory above.  Commands
run in it by nsenter and chroot, with the network and the processes of this machine.  Whatever they write is in the upper
folder, so that what a package leaves behind can be listed.
"""
import filecmp
import os
import re
import shutil
import stat
import subprocess
import tempfile

LIMIT_S = 900
HOLDER = """set -e
mount -t tmpfs tmpfs {place}
mkdir {place}/upper {place}/work {place}/root
mount -t overlay overlay -o lowerdir=/,upperdir={place}/upper,workdir={place}/work {place}/root
for folder in proc sys dev; do mount --rbind /$folder {place}/root/$folder; done
mount -t tmpfs tmpfs {place}/root/run
mount -t tmpfs tmpfs {place}/root/tmp
echo ready
exec cat
"""
# What dpkg, DKMS and the indexes of others keep for themselves, whatever is installed.
KEPT = re.compile(r"/(var/(lib/dpkg|cache|log|lib/systemd|lib/dkms/mok\.\w+)(/|$)|etc/ld\.so\.cache$|lib/modules/[^/]+/modules\.|usr/lib/modules/[^/]+/modules\."
                  r"|tmp(/|$)|run(/|$)|root/\.)")


def cannot():
    """Why there can be no such layer here, or ""."""
    if os.geteuid() != 0:
        return "only root may mount"
    missing = [tool for tool in ("unshare", "nsenter", "chroot", "mount") if not shutil.which(tool)]
    return f"there is no {', '.join(missing)}" if missing else ""


class Unmountable(Exception):
    """The layer cannot be made; the text says why."""


class System:
    """A context: with System() as system."""

    def __enter__(self):
        self.place = tempfile.mkdtemp(prefix="rung-package-")
        self.holder = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sh", "-c", HOLDER.format(place=self.place)],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if self.holder.stdout.readline() != "ready\n":
            why = self.holder.communicate()[1].strip()
            os.rmdir(self.place)
            raise Unmountable(why)
        return self

    def __exit__(self, *_):
        self.holder.communicate()  # the end of its input ends it, and with it the mounts
        os.rmdir(self.place)

    def within(self, *command):
        """The command, as it is started from outside."""
        return ["nsenter", "-t", str(self.holder.pid), "-m", "--", "chroot", f"{self.place}/root", "env", "-i", "HOME=/root", "LC_ALL=C.UTF-8",
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", *command]

    def run(self, *command, status=0, given=None):
        """Runs a command to its end: its output, errors included."""
        done = subprocess.run(self.within(*command), stdin=None if given else subprocess.DEVNULL, input=given, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S, check=False)
        assert done.returncode == status, (command, done.returncode, done.stdout)
        return done.stdout

    def view(self):
        """The layer and the machine below it as paths of /proc, which lead into the other namespace."""
        return f"/proc/{self.holder.pid}/root{self.place}/upper"

    def put(self, path, name):
        """Copies a file to /tmp of the layer: its path there."""
        shutil.copy(path, f"/proc/{self.holder.pid}/root{self.place}/root/tmp/{name}")
        return f"/tmp/{name}"

    def left(self):
        """{path: new, changed or removed} of what differs from this machine, except what others keep for themselves."""
        upper, found = self.view(), {}
        for folder, folders, files in os.walk(upper):
            for name in folders + files:
                path = os.path.join(folder, name)
                below = path[len(upper):]
                word = compared(path, below)
                if word and not KEPT.match(below):
                    found[below] = word
        return found


def compared(path, below):
    state = os.lstat(path)
    if stat.S_ISCHR(state.st_mode) and state.st_rdev == 0:
        return "removed"
    if not os.path.lexists(below):
        return "new"
    if stat.S_ISREG(state.st_mode) and not filecmp.cmp(path, below, shallow=False):
        return "changed"
    return ""
