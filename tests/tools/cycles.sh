#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cycles.sh CC SOURCE: scripts/cycles finds a planted circle of three files, and none where its last call is missing.
set -eu
cc=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/scripts" "$work/core" "$work/build/core/CMakeFiles/dhow_core.dir"
cp "$source/scripts/cycles" "$work/scripts/"
cd "$work"
try() { # the files call each other in a row; the last one calls $1
    for pair in a:b b:c "c:$1" d:a; do
        from=${pair%:*} to=${pair#*:}
        echo "int $to(void); int $from(void); int $from(void) { return $to() + 1; }" >"core/$from.c"
        "$cc" -c "core/$from.c" -o "build/core/CMakeFiles/dhow_core.dir/$from.c.o"
    done
    scripts/cycles build 2>/dev/null || true # the other targets are not there
}
try a >found
grep -q 'a circle of 3 files' found || { echo "the circle of three files is not found:"; cat found; exit 1; }
grep -q 'core/c.c -> core/a.c: a' found || { echo "what closes the circle is not told:"; cat found; exit 1; }
if grep -q 'core/d.c' found; then echo "a file beside the circle is told:"; cat found; exit 1; fi
try other >found
[ ! -s found ] || { echo "a circle where there is none:"; cat found; exit 1; }
