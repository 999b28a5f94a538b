#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# documents.sh CC SOURCE BUILD: compiles the C blocks of README.md and of the documents that show parts of programs, and the
# kernels in the comment of dhow/kernel/k.h, and runs them, see documents.c. A block that documents.c has no place for fails;
# README's first block is run.sh's, docs/from-pytorch.md snippets.sh's, docs/training.md training.sh's.
set -eu
cc=$1 source=$2 build=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sh "$source/tests/readme/wrap.sh" "$source" "$build" plain >"$work/wrap.h"
for document in "$source"/README.md "$source"/docs/*.md; do
    name=$(basename "$document" .md | tr '[:upper:]-' '[:lower:]_')
    case $name in from_pytorch | training) continue ;; esac
    awk -v name="$name" -v work="$work" -v document="$(basename "$document")" '
        /^```c$/ {inside = 1; file = work "/" name "_" ++count ".inc"; printf "#line %d \"%s\"\n", NR + 1, document > file; next}
        /^```$/ {inside = 0}
        inside {print > file}' "$document"
done
rm -f "$work/readme_1.inc"
# As a string of C: the kernels are texts that are built when they are needed.
awk '/^ \*\// {exit} /^ \*   KERNEL\(/ {on = 1} on {line = $0; sub(/^ \*   /, "", line); print "\"" line "\\n\""} /^ \*   }/ {on = 0}' \
    "$source/include/dhow/kernel/k.h" >"$work/k_1.inc"
# Calls in the cells of tables, compiled alone: those of values of a model, which begin dhow_model_NAME(m, and the others.
cat "$source/README.md" "$source"/docs/*.md | sed -n '/^|/p' | grep -oE '`dhow_[a-z0-9_]+\([^`]+\)`' | tr -d '`' | sort -u >"$work/cells"
[ "$(wc -l <"$work/cells")" -ge 40 ] || { echo "tables of the documents have few calls: $(wc -l <"$work/cells")"; exit 1; }
grep -E '^dhow_model_[a-z0-9_]+\(m,' "$work/cells" | sed 's/$/;/' >"$work/cells_1.inc"
grep -vE '^dhow_model_[a-z0-9_]+\(m,' "$work/cells" | sed 's/$/;/' >"$work/cells_2.inc"
cd "$work"
for file in *.inc; do
    [ -s "$file" ] || { echo "$file is empty"; exit 1; }
    grep -q "\"$file\"" "$source/tests/readme/documents.c" || {
        echo "${file%_*}, block ${file##*_}: tests/readme/documents.c has no function for it"; exit 1; }
done
for file in $(sed -n 's/^#include "\([a-z_]*_[0-9]*\.inc\)".*/\1/p' "$source/tests/readme/documents.c"); do
    [ -e "$file" ] || { echo "the document of $file has no such block any more"; exit 1; }
done
"$cc" -std=c11 -Wall -Wextra -Werror -DBACKEND='"cpu"' -I"$work" -I"$source/tests/readme" -I"$source/include" \
    "$source/tests/readme/documents.c" -L"$build/lib" -ldhow -Wl,-rpath,"$build/lib" -o documents
[ ! -x "${WRITE_MODELS:-}" ] || { "$WRITE_MODELS" "$work" && mv open.onnx model.onnx; }
./documents
