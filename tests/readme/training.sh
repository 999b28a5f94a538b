#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiles the C block of docs/training.md as the body of a function: training.sh CC SOURCE. What it does is run from
# docs/from-pytorch.md, which has the same loop.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{
    cat <<'C'
#include <dhow/dhow.h>
dhow_status train(dhow_device *device, dhow_model *model, dhow_loader *loader);
dhow_status train(dhow_device *device, dhow_model *model, dhow_loader *loader) {
    dhow_batch batch = DHOW_INIT(dhow_batch);
    dhow_trainer *trainer;
    dhow_status status;
    double loss;
C
    awk '/^```c$/ {inside = 1; blocks++; printf "#line %d \"training.md\"\n", NR + 1; next} /^```$/ {inside = 0} inside
         END {if (blocks != 1) print "#error docs/training.md has " blocks + 0 " C blocks, of which this test knows one"}' "$2/docs/training.md"
    echo '    return DHOW_OK; }'
} >"$work/training.c"
# Statuses are looked at where the loop turns on them; the other calls are short for a document.
"$1" -std=c11 -Wall -Wextra -Werror -Wno-unused-result -I"$2/include" -fsyntax-only "$work/training.c"
