#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# snippets.sh CC SOURCE BUILD BACKEND [MPIEXEC...]: compiles and runs the C blocks of docs/from-pytorch.md, one after the other
# in one program, with BACKEND in the place of CUDA. A line before a block says what is special about it:
#   <!-- fails -->   its calls may fail: it shows what they say. Left out where BACKEND is the CPU
#   <!-- prints -->  of a text block: what the C block before it prints. Not compared where BACKEND is the CPU
#   <!-- mpi -->     a program's part for every rank; run alone, by MPIEXEC
set -eu
cc=$1 source=$2 build=$3 backend=$4
shift 4
document=$source/docs/from-pytorch.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
kind=plain
[ $# -eq 0 ] || kind=mpi

sh "$source/tests/readme/wrap.sh" "$source" "$build" $kind >"$work/wrap.h"

# A function per block, and what it shall print.
awk -v kind=$kind -v backend="$backend" -v expected="$work/expected" '
    /^<!-- [a-z]+ -->$/ {mark = $2; next}
    /^```c$/ {
        mine = kind == "mpi" ? mark == "mpi" : mark != "mpi"
        if (mark == "fails" && backend == "cpu") mine = 0
        inside = 1
        if (mine) {
            block++
            fails[block] = mark == "fails"
            printf "static void block_%d(void) {\n#line %d \"from-pytorch.md\"\n", block, NR + 1
        }
        mark = ""
        next
    }
    /^```text$/ {text = mark == "prints"; inside = 2; mark = ""; next}
    /^```/ {
        if (inside == 1 && mine) print "}"
        if (inside > 0) {inside = 0; next}
        inside = 3
        next
    }
    inside == 1 && mine {
        line = $0
        while (match(line, /"[^"]*cuda[^"]*"/)) {
            word = substr(line, RSTART, RLENGTH)
            if (backend == "cpu") gsub(/cuda:[0-9]/, "cpu", word)
            gsub(/cuda/, backend, word)
            line = substr(line, 1, RSTART - 1) word substr(line, RSTART + RLENGTH)
        }
        print line
    }
    inside == 2 && text {gsub(/cuda/, backend); print "block " block ": " $0 > expected}
    {if (!inside && $0 != "") mark = ""}
    END {
        print "int main(int argc, char **argv) {\n    (void)argc, (void)argv;"
        if (kind == "mpi") print "    int level;\n    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);"
        print "    snippet_begin();"
        for (i = 1; i <= block; i++)
            printf "    g_may_fail = %d; printf(\"@%d\\n\"); block_%d();\n", fails[i], i, i
        print (kind == "mpi" ? "    MPI_Finalize();\n" : "") "    return 0;\n}"
    }' "$document" >"$work/blocks.c"
count=$(grep -c '^static void block_' "$work/blocks.c")
[ "$count" -ge 1 ] || { echo "the document has no blocks"; exit 1; }
{ [ $kind = plain ] || echo '#include <dhow/mpi.h>'
  echo '#include "prologue.h"'; echo '#include "wrap.h"'; cat "$work/blocks.c"; } >"$work/snippets.c"

# shellcheck disable=SC2046
"$cc" -std=c11 -Wall -Wextra -Werror -Wno-unused-value -Wno-unused-variable -Wno-unused-function -DBACKEND="\"$backend\"" \
    -I"$work" -I"$source/include" -I"$source/tests/readme" "$work/snippets.c" -L"$build/lib" \
    $([ $kind = plain ] || echo -ldhow_mpi) -ldhow -Wl,-rpath,"$build/lib" -o "$work/snippets"
[ ! -x "${WRITE_MODELS:-}" ] || { "$WRITE_MODELS" "$work" && mv "$work/open.onnx" "$work/model.onnx"; }
cd "$work"
if [ $kind = mpi ]; then
    "$@" ./snippets
    echo "$count blocks for every rank"
    exit
fi
./snippets >out || { echo "the blocks fail; they printed"; cat out; exit 1; }
[ "$backend" != cpu ] || { echo "$count blocks run on the CPU"; exit; }
# What is told to be printed is printed, whole.
sed -n 's/^block \([0-9]*\): .*/\1/p' expected | sort -un | while read -r block; do
    sed -n "s/^block $block: //p" expected >want
    awk -v block="@$block" '/^@[0-9]+$/ {on = $0 == block; next} on' out >got
    diff want got || { echo "block $block prints something else (>) than the document says (<)"; exit 1; }
done
echo "$count blocks run on $backend"
