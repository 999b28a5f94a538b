#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# dlpack_header.sh CC CXX INCLUDE FOLDER: dhow/dlpack.h beside a <dlpack/dlpack.h> of the program's own, in both orders, in C and C++;
# one that is older than DLPack 1.0 is refused in words. CXX may be empty.
set -eu
cc=$1 cxx=$2 include=$3 folder=$4
rm -rf "$folder" && mkdir -p "$folder/dlpack"
# The part of the specification, as a header of its own.
{
    echo '#ifndef DLPACK_DLPACK_H_'
    echo '#include <stdint.h>'
    sed -n '/^#define DLPACK_DLPACK_H_/,/^#elif/p' "$include/dhow/dlpack.h" | sed '$d'
    echo '#endif'
} >"$folder/dlpack/dlpack.h"
body='int main(void) { DLManagedTensorVersioned *m = 0; return m != 0 || dhow_tensor_to_dlpack(0, 0, &m) == 0; }'
printf '#include <dlpack/dlpack.h>\n#include "dhow/dlpack.h"\n%s\n' "$body" >"$folder/theirs_first.c"
printf '#include "dhow/dlpack.h"\n#include <dlpack/dlpack.h>\n%s\n' "$body" >"$folder/ours_first.c"
for file in theirs_first ours_first; do
    "$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$include" -I"$folder" "$folder/$file.c"
    [ -z "$cxx" ] || "$cxx" -x c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$include" -I"$folder" "$folder/$file.c"
done
printf '#define DLPACK_DLPACK_H_\n#define DLPACK_VERSION 80\n#include "dhow/dlpack.h"\n' >"$folder/old.c"
if "$cc" -fsyntax-only -I"$include" "$folder/old.c" 2>"$folder/old.log"; then
    echo "an older DLPack was taken" >&2
    exit 1
fi
grep -q 'needs DLPack 1.0' "$folder/old.log"
