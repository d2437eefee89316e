# SPDX-License-Identifier: MIT
# module.sh MODULE PARAMETER=VALUE... - in a guest: a module of ours as a process, there from its first word to its last.
#
# While it lives the module serves; told to end, it unloads it.  What loading says in the kernel's log is said again.
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
