#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# wrap.sh SOURCE BUILD plain|mpi: macros that check the status of every public function, see prologue.h.
set -eu
source=$1 build=$2 kind=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

grep -ohE '^DHOW_API (void|bool|const [a-z_]+ \*|u?int[0-9]+_t |dhow_[a-z]+ \*?)[^(]*\(' "$source"/include/dhow/*.h |
    grep -v 'DHOW_NODISCARD' | grep -oE 'dhow_[a-z0-9_]+\($' | tr -d '(' | sort >"$work/others"
{ nm -D --defined-only "$build"/lib/libdhow.so; [ $kind = plain ] || nm -D --defined-only "$build"/lib/libdhow_mpi.so
  grep -ohE '^DHOW_API u?int[0-9]+_t dhow_mpi[a-z_]*|^DHOW_API void dhow_mpi[a-z_]*' "$source/include/dhow/mpi.h" |
      awk '{print "x U " $3}'; } | awk '$2 == "T" {sub(/@.*/, "", $3); print $3}' | sort -u >"$work/all"
comm -23 "$work/all" "$work/others" |
    awk '{print "#define " $1 "(...) SNIPPET_CHECK(" $1 "(__VA_ARGS__))"}' >"$work/wrap.h"
grep -q dhow_model_run "$work/wrap.h" || { echo "no function is wrapped"; exit 1; }
! grep -q 'dhow_tensor_release' "$work/wrap.h" || { echo "a function without a status is wrapped"; exit 1; }
cat "$work/wrap.h"
