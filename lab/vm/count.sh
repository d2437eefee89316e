# SPDX-License-Identifier: MIT
# count.sh - runs in a guest that counts: each cell's server is started, asked, and ended.
#
# The text after a line "@ CELL KEY" is that value, up to the next such line; kind_guest.py reads it.  One round of
# answers is compared with the file and brings everything into memory; then come a short run and a long one, whose
# difference is free of beginnings.  The time that the processor was idle is read before, between and after them.
PORT=8080
WARM=128 # answers, two for each connection of the largest scenario
TRIES=200

sleep 4 # it costs nothing, and afterwards the guest's files are old enough to be cached

idle_ns() {
    sed -n 's/.*idle_sleeptime *: \([0-9]*\) nsecs/\1/p' /proc/timer_list
}

# A kernel still works for a while after it has booted (Linux 6.12 tests its ciphers), and so does a server that was asked
# to end: a cell begins only when the guest has been idle for nine tenths of a second.
settle() {
    tries=0
    while [ $tries -lt $TRIES ]; do
        rested=$(idle_ns)
        sleep 1
        [ $(($(idle_ns) - rested)) -lt 900000000 ] || return 0
        tries=$((tries + 1))
    done
    echo 'the guest has work of its own that does not end' >/tmp/why
    return 1
}

ask() { # ask N OPTION...
    n=$1
    shift
    /lab/rung-load -q -t 1 -n "$n" -o - "$@" "http://127.0.0.1:$PORT/$path"
}

await() {
    tries=0
    until /lab/rung-load -q -t 1 -c 1 -n 1 "http://127.0.0.1:$PORT/$path" 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt $TRIES ] && kill -0 "$server" 2>/dev/null || return 1
        sleep 0.05 # costs nothing: the clock jumps
    done
}

end_server() {
    kill "$server" 2>/dev/null
    tries=0
    while kill -0 "$server" 2>/dev/null && [ $tries -lt $TRIES ]; do
        tries=$((tries + 1))
        sleep 0.05
    done
    kill -9 "$server" 2>/dev/null
    wait "$server" 2>/dev/null
}

measured() { # measured LESS MORE OPTION...
    less=$1 more=$2
    shift 2
    await || { echo "the server does not answer: $(tail -c 400 /tmp/said)" >/tmp/why; return 1; }
    case $path in
    *.html) ask "$WARM" "$@" --check /srv >/tmp/warm 2>/tmp/why || return 1 ;;
    *) ask "$WARM" "$@" >/tmp/warm 2>/tmp/why || return 1 ;; # a listing, or maybe compressed: no file to compare with
    esac
    before=$(idle_ns)
    ask "$less" "$@" >/tmp/less 2>/tmp/why || return 1
    between=$(idle_ns)
    ask "$more" "$@" >/tmp/more 2>/tmp/why || return 1
    after=$(idle_ns)
}

cell() { # cell ID SERVER PATH LESS MORE OPTION...
    id=$1 path=$3
    settle || { echo "@ $id why" && cat /tmp/why; return; }
    setsid sh -c "exec $2" >/tmp/said 2>&1 </dev/null &
    server=$!
    shift 3
    if measured "$@"; then
        echo "@ $id less" && cat /tmp/less
        echo "@ $id more" && cat /tmp/more
        echo "@ $id idle" && echo "$before $between $after"
    else
        echo "@ $id why" && cat /tmp/why
    fi
    end_server
}
