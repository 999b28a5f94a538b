#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints a unit as an OpenCL plugin would hand it to the compiler: the K_HEAD_<name> definitions made from the listed
# signatures, then the text with K_HEAD(name) inserted at the top of each body.
#   opencl_text.sh <cc> <include folder> <unit.k> [-DT=f16 ...]
set -eu
cc=$1 include=$2 unit=$3
shift 3
"$cc" -E -P -x c -DK_LIST "$@" -I"$include" "$unit" | awk '
    /^[ \t]*@K / {
        name = $2
        list = $0
        sub(/^[^"]*"\(/, "", list)
        sub(/\)"[^"]*$/, "", list)
        head = ""
        while (match(list, /[A-Z_]+\([a-z0-9]+, *[A-Za-z0-9_]+\)/)) {
            arg = substr(list, RSTART, RLENGTH)
            list = substr(list, RSTART + RLENGTH)
            split(arg, part, /[(,) ]+/)
            kind = part[1]; type = part[2]; var = part[3]
            if (kind == "VAL") continue
            con = (kind == "IN" || kind == "ALIAS") ? "const " : ""
            res = (kind ~ /^ALIAS/) ? "" : "restrict "
            head = head " __global " con type " *" res var " = (__global " con type " *)(" var "_p + " var "_o);"
        }
        print "#define K_HEAD_" name head
    }'
awk '
    /^KERNEL\(/ {
        depth = 0; name = ""; text = substr($0, 8)
        for (i = 1; i <= length(text); i++) {
            c = substr(text, i, 1)
            if (c == "," && depth == 0) break
            if (c == "(") depth++
            if (c == ")") depth--
            name = name c
        }
        waiting = 1
    }
    waiting && /^\{/ { print "{ K_HEAD(" name ")"; waiting = 0; next }
    { print }' "$unit"
