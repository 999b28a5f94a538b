#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The manual pages know every option of the tools and every variable: man.sh BIN SOURCE
set -eu
failed=0
for tool in devinfo dhow-run dhow-conform; do
    page=$2/docs/man/$tool.1
    for option in $("$1/$tool" --help | grep -oE '(^| )--[a-z-]+' | sort -u); do
        sed 's/\\-/-/g' "$page" | grep -qe "$option" || { echo "$page does not know $option"; failed=1; }
    done
done
for variable in $(grep -ohE '^\| `DHOW_[A-Z_]+`' "$2/README.md" | tr -d '|` '); do
    grep -q "$variable" "$2/docs/man/dhow.7" || { echo "dhow.7 does not know $variable"; failed=1; }
done
exit $failed
