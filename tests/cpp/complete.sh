#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# complete.sh LIBRARY PROGRAM: the program, which uses dhow.hpp, comes to every function that the library exports, except
# those for which C++ has something better or the C function is as good.
except='dhow_fill dhow_tensor_full dhow_dtype_bytes dhow_status_text dhow_version'
called=$(nm "$2" | awk '$1 == "U" {sub(/@.*/, "", $2); print $2}')
missing=0
for function in $(nm -D --defined-only "$1" | awk '$2 == "T" {sub(/@.*/, "", $3); print $3}'); do
    case " $except " in *" $function "*) continue ;; esac
    echo "$called" | grep -qx "$function" || { echo "dhow.hpp or its tests do not come to $function"; missing=1; }
done
exit $missing
