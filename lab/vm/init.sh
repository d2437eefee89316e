#!/bin/busybox sh
# SPDX-License-Identifier: MIT
# init.sh - the guest's first process: prepares what a command needs, runs it, and powers the machine off.
#
# Output leaves the guest over serial lines: ttyS0 is the console, ttyS1 the command's output, ttyS2 its exit status.
/bin/busybox mkdir -p /proc /sys /dev /tmp /run /var/log /root
/bin/busybox --install -s /bin
export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C

off() { # off LINE: prints the reason on the console
    [ -z "$1" ] || echo "guest: $1" >/dev/console
    poweroff -f
}

mount -t devtmpfs none /dev
echo 'guest: the first process runs' >/dev/console # guest.py looks for it
mount -t proc none /proc
mount -t sysfs none /sys
while read -r module; do
    insmod "/vm/modules/$module.ko" || off "module $module cannot be loaded"
done </vm/modules/order
ip link set lo up
ulimit -n 65536
at=
if [ -e /vm/root ]; then # this machine's files, read only; what the guest writes stays in its memory
    mkdir -p /vm/lower /vm/over
    mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=loose,ro root /vm/lower &&
        mount -t tmpfs none /vm/over && mkdir -p /vm/over/files /vm/over/work /vm/top &&
        mount -t overlay -o lowerdir=/vm/lower,upperdir=/vm/over/files,workdir=/vm/over/work none /vm/top ||
        off 'the root folder cannot be mounted'
    at=/vm/top
    for folder in dev proc sys; do mount --bind "/$folder" "$at/$folder"; done
    mount -t tmpfs none "$at/run"
    cp -r /vm/files/. "$at/"
fi
mkdir -p /dev/pts /dev/shm
mount -t devpts none /dev/pts
mount -t tmpfs none /dev/shm
if [ -e /vm/share ]; then
    mkdir -p "$at/share"
    mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,cache=none share "$at/share" ||
        off 'the shared folder cannot be mounted'
fi
stty -F /dev/ttyS1 raw
stty -F /dev/ttyS2 raw
mkdir -p "$at/vm" && cp /vm/command "$at/vm/command" 2>/dev/null
if [ -e /vm/systemd ]; then # it becomes the first process, and rung-guest.service runs the command
    cp /vm/service.sh "$at/vm/"
    mkdir -p "$at/etc/systemd/system" && cp /vm/rung-guest.service "$at/etc/systemd/system/"
    : >"$at/etc/machine-id"
    rm -f "$at/.dockerenv" "$at/usr/sbin/policy-rc.d" # if this machine is a container, the guest is none and starts services
    for folder in tmp var/tmp; do mount -t tmpfs none "$at/$folder"; done # systemd would empty this machine's, file by file
    exec switch_root "$at" /lib/systemd/systemd
fi
chroot "${at:-/}" /bin/sh /vm/command </dev/null >/dev/ttyS1 2>&1
status=$?
sync
stty -F /dev/ttyS1 raw # waits until all output is sent
echo "$status" >/dev/ttyS2
stty -F /dev/ttyS2 raw
off
