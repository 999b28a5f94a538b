#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Kernels in their GPU form under oclgrind, which finds data races: race.sh PROGRAM FOLDER_OF_KERNELS
# 77 means that oclgrind is not installed.
set -eu
icd=/usr/lib/oclgrind/liboclgrind-rt-icd.so
[ -e "$icd" ] || { echo "race: oclgrind is not installed, races are not looked for"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OCL_ICD_VENDORS="$icd" OCLGRIND_DATA_RACES=1 OCLGRIND_UNIFORM_WRITES=1 OCLGRIND_LOG="$work/log" DHOW_CACHE_DIR=off
export DHOW_BACKENDS=cpu,opencl

: >"$OCLGRIND_LOG"
"$1" "$2" 64 matmul_f32=128 matmul_f32=256 conv2d_f32=256
if [ -s "$OCLGRIND_LOG" ]; then
    head -n 40 "$OCLGRIND_LOG" >&2
    echo "race: oclgrind reports the above" >&2
    exit 1
fi
# A barrier that is missing is found, so the silence above means something.
: >"$OCLGRIND_LOG"
"$1" planted
grep -qi 'data race' "$OCLGRIND_LOG" || { echo "race: the planted race was not found" >&2; exit 1; }
echo "race: kernels clean, the planted race found"
