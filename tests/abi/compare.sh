#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# compare.sh LAYOUT_PROGRAM GOLDEN: the layout of the ABI is the golden one, or a diff says where not.
set -u
now=$("$1") || { echo "abi: list the new field at the end of its struct in tests/abi/plugin_v1_fields.h"; exit 1; }
if echo "$now" | diff -u "$2" -; then
    exit 0
fi
cat <<END
abi: the layout is no longer the one of $(basename "$2"). Plugins and programs that exist were compiled with that one:
  a line that is gone or changed breaks them - undo it;
  lines that were only added, at the end of a struct, need (for plugins) a new DHOW_PLUGIN_MINOR and then
      $1 > $2
END
exit 1
