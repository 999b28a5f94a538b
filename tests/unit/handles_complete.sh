#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# handles_complete.sh LIBRARY PROGRAM: the program calls every function that the library exports.
called=$(nm "$2" | awk '$1 == "U" {sub(/@.*/, "", $2); print $2}')
missing=0
for function in $(nm -D --defined-only "$1" | awk '$2 == "T" {sub(/@.*/, "", $3); print $3}'); do
    echo "$called" | grep -qx "$function" || { echo "handles_test does not call $function"; missing=1; }
done
exit $missing
