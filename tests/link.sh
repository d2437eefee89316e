#!/bin/bash
# SPDX-License-Identifier: MIT
# link.sh [BUILD] - the core, linked to one object, must need nothing but mem*, strlen and core_failed.
#
# Compiled without optimization, a stack protector and the compiler's own calls, so that what is left
# undefined is what the sources ask for.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${1:-build}/link
rm -rf "$dir"
mkdir -p "$dir"
python3 scripts/gen-types.py >"$dir/mime_types.h"
for src in core/*.c; do
    "${CC:-gcc}" -I"$dir" -std=c11 -O0 -ffreestanding -fbuiltin -fno-stack-protector -U_FORTIFY_SOURCE -fno-pie \
        -c -o "$dir/$(basename "$src" .c).o" "$src"
done
ld -r -o "$dir/core.o" "$dir"/*.o
allowed='^(memchr|memcmp|memcpy|memmove|memset|strlen|core_failed)$'
asked=$(nm -u "$dir/core.o" | awk '{ print $2 }')
if bad=$(grep -vE "$allowed" <<<"$asked"); then
    for name in $bad; do
        where=$(cd "$dir" && nm -A -u ./*.o | awk -v n="$name" '$NF == n { sub(/^\.\//, ""); sub(/\.o:.*/, ".c"); print }' |
            grep -v '^core.c$' | sort -u | tr '\n' ' ')
        echo "core/: $name is undefined, asked for by $where- the core has mem*, strlen and core_failed, no more" >&2
    done
    exit 1
fi
echo "the core asks for: $(tr '\n' ' ' <<<"$asked")"
