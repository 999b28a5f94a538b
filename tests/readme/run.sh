#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiles README's first program exactly as printed and runs it: run.sh CC SOURCE BUILD
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
awk '/^```c$/ {inside = 1; next} /^```$/ {if (inside) exit} inside' "$2/README.md" >"$work/readme.c"
grep -q 'int main' "$work/readme.c" || { echo "README.md has no program"; exit 1; }
"$1" -std=c11 -Wall -Wextra -Werror -I"$2/include" "$work/readme.c" -L"$3/lib" -ldhow -Wl,-rpath,"$3/lib" -o "$work/readme"
DHOW_DEVICE=cpu "$work/readme" | tee "$work/out"
# x w^T = (1 - 2 + 3) / 2 twice and (-4 + 5 - 6) / 2 twice, and relu cuts the latter.
[ "$(cat "$work/out")" = "cpu:0: 1 1 0 0" ]
