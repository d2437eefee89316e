#!/bin/sh
# SPDX-License-Identifier: MIT
# service.sh - what init.sh does at its end, as a service where systemd is the first process: runs the guest's command and powers
# the machine off.
stty -F /dev/ttyS1 raw
sh /vm/command </dev/null >/dev/ttyS1 2>&1
status=$?
sync
stty -F /dev/ttyS1 raw # waits until all output is sent
stty -F /dev/ttyS2 raw
echo "$status" >/dev/ttyS2
stty -F /dev/ttyS2 raw
systemctl poweroff --force --force
