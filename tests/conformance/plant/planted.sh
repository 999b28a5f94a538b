#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# planted.sh TOOL PLUGIN FAILING CASES [OPTION...]: the tool fails in exactly the cases of the list FAILING, of those of
# the list CASES.
set -u
tool=$1 plugin=$2 failing=$3 cases=$4
shift 4
out=$("$tool" --timeout 40 "$@" "$plugin" $cases)
status=$?
echo "$out" | grep '^FAIL'
found=$(echo "$out" | awk '$1 == "FAIL" {print $2}' | sort | tr '\n' ' ')
wanted=$(echo "$failing" | tr ' ' '\n' | grep . | sort | tr '\n' ' ')
[ "$found" = "$wanted" ] || { echo "failed: $found"; echo "wanted: $wanted"; exit 1; }
[ -z "$failing" ] && expected=0 || expected=1
[ $status = $expected ] || { echo "exit status $status"; exit 1; }
