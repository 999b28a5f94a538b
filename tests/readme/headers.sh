#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# headers.sh CC SOURCE BUILD: compiles the examples in the comments of the public headers and runs them, see headers.c. A header
# with an example that headers.c has no place for fails.
set -eu
cc=$1 source=$2 build=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sh "$source/tests/readme/wrap.sh" "$source" "$build" plain >"$work/wrap.h"
# An example is indented by four more columns than a comment; what ends no statement is prose or a picture of output.
for header in "$source"/include/dhow/*.h; do
    name=$(basename "$header" .h)
    case $name in mpi | plugin) continue ;; esac # docs/from-pytorch.md and the plugins of tests/ are theirs
    awk -v name="$name" '/^ \*\// {exit} /^ \*     [^ ]/ || (on && /^ \*      /) {sub(/^ \*     /, ""); print; on = 1; next} {on = 0}' \
        "$header" >"$work/$name.inc"
    # dhow_add_kernels() makes the second module of kernel.h, tests/ahead builds such a program.
    [ "$name" != kernel ] || sed -i '/&axpy_kernels/d' "$work/$name.inc"
    if grep -q ';$' "$work/$name.inc" && ! grep -q "\"$name.inc\"" "$source/tests/readme/headers.c"; then
        echo "include/dhow/$name.h has an example, tests/readme/headers.c has no function for it"
        exit 1
    fi
done
for name in $(sed -n 's/^#include "\([a-z]*\)\.inc"$/\1/p' "$source/tests/readme/headers.c"); do
    [ -s "$work/$name.inc" ] || { echo "include/dhow/$name.h has no example any more"; exit 1; }
done
"$cc" -std=c11 -Wall -Wextra -Werror -DBACKEND='"cpu"' -I"$work" -I"$source/tests/readme" -I"$source/include" \
    "$source/tests/readme/headers.c" -L"$build/lib" -ldhow -Wl,-rpath,"$build/lib" -o "$work/headers"
cd "$work"
./headers
