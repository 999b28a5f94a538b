#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# executed.sh TEXTS EXECUTED: every kernel in the PTX of folder TEXTS stands in a file of folder EXECUTED, where launches
# without a finding write their kernels' names (PTX_EXECUTED). The files are removed: the next run writes its own.
set -eu
texts=$1 executed=$2
cat "$texts"/*.32.ptx | sed -n 's/.*\.entry \([A-Za-z0-9_]*\).*/\1/p' | LC_ALL=C sort -u >"$executed/all"
cat "$executed"/*.txt | LC_ALL=C sort -u >"$executed/seen"
rm -f "$executed"/*.txt
missing=$(LC_ALL=C comm -23 "$executed/all" "$executed/seen")
if [ -n "$missing" ]; then
    echo "no test executes the PTX of:" $missing
    exit 1
fi
echo "the PTX of $(wc -l <"$executed/all") kernels was executed"
