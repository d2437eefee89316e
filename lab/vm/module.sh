# SPDX-License-Identifier: MIT
# module.sh MODULE PARAMETER=VALUE... - in a guest: a module of ours as a process, loaded as long as the process runs.
#
# The module serves until the process gets SIGTERM and unloads it.  If loading fails, the kernel's messages are printed.
module=$1
shift

out() {
    rmmod "$module"
    rmmod rung_core
}

insmod /lab/rung_core.ko || exit 1
if ! insmod "/lab/$module.ko" "$@"; then
    dmesg | grep "$module: " | tail -n 3
    rmmod rung_core
    exit 1
fi
trap 'kill $!; out; exit 0' TERM
while :; do
    sleep 100000 & # costs nothing
    wait $!
done
