#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiles the C blocks of docs/training.md, each as the body of a function: training.sh CC SOURCE [FOLDER OF mpi.h...]. What they
# do is run from docs/from-pytorch.md, which has the same loops. Without a folder a block that names MPI is left out.
set -eu
cc=$1 source=$2
shift 2
[ $# -eq 0 ] || set -- "$@" "$source/include" -DHAS_MPI
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
{
    cat <<'C'
#include <dhow/dhow.h>
#ifdef HAS_MPI
#include <dhow/mpi.h>
#define JOB dhow_mpi *job
#else
#define JOB int job
#endif
C
    awk '/^```c$/ {
             blocks++
             printf "dhow_status block_%d(dhow_device *device, dhow_device *gpu, dhow_device *other_gpu, dhow_device *cpu, ", blocks
             printf "dhow_model *model, dhow_loader *loader, dhow_dataset *data, int64_t samples);\n"
             printf "dhow_status block_%d(dhow_device *device, dhow_device *gpu, dhow_device *other_gpu, dhow_device *cpu, ", blocks
             print "dhow_model *model, dhow_loader *loader, dhow_dataset *data, int64_t samples) {"
             print "dhow_batch batch = DHOW_INIT(dhow_batch);"
             print "dhow_trainer *trainer; dhow_status status = DHOW_OK; double loss;"
             print "dhow_process_group ranks = DHOW_INIT(dhow_process_group); int64_t counts[64]; dhow_dataset *parts[64]; JOB;"
             inside = 1; text = sprintf("#line %d \"training.md\"\n", NR + 1); next
         }
         /^```$/ && inside {
             if (text ~ /MPI_/) text = "#ifdef HAS_MPI\n" text "#endif\n"
             printf "%sreturn DHOW_OK; }\n", text
             inside = 0
         }
         inside {text = text $0 "\n"}
         END {if (blocks != 3) print "#error docs/training.md has " blocks + 0 " C blocks, of which this test knows three"}' "$source/docs/training.md"
} >"$work/training.c"
flags=
for word; do case $word in -*) flags="$flags $word" ;; *) flags="$flags -isystem $word" ;; esac; done
# Statuses are looked at where the loop turns on them; the other calls are short for a document.
# shellcheck disable=SC2086
"$cc" -std=c11 -Wall -Wextra -Werror -Wno-unused-result -Wno-unused-parameter -Wno-unused-variable -Wno-unused-but-set-variable \
    -I"$source/include" $flags -fsyntax-only "$work/training.c"
