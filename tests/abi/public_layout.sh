#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# public_layout.sh INCLUDE OUT.c: a program that prints the layout of every public struct that grows, read from the headers.
set -eu
{
    printf '%s\n' '#include <stddef.h>'
    printf '%s\n' '#include <stdio.h>'
    printf '%s\n' '#include "dhow/dhow.h"'
    printf '%s\n' '#define FIELD(s, f) printf("  %4zu %4zu %s\n", offsetof(s, f), sizeof(((s *)0)->f), #f);'
    printf '%s\n' 'int main(void) {'
    for header in "$1"/dhow/*.h; do
        case $header in */plugin.h | */mpi.h) continue ;; esac
        perl -0pe 's{/\*.*?\*/}{}gs' "$header" | awk '
            /^typedef struct dhow_[a-z_]+ \{/ { name = $3; inside = 1; text = ""; sized = 0; next }
            inside && /^\} dhow_/ {
                inside = 0
                if (text !~ /uint32_t struct_size;/) next
                printf "    printf(\"struct %s: %%zu bytes\\n\", sizeof(%s));\n", name, name
                count = split(text, fields, ";")
                for (i = 1; i < count; i++) {
                    field = fields[i]
                    if (match(field, /\(\*[a-z_0-9]+\)/)) {
                        field = substr(field, RSTART + 2, RLENGTH - 3)
                        printf "    FIELD(%s, %s)\n", name, field
                        continue
                    }
                    sub(/^[ \t]*/, "", field)
                    parts = split(field, names, ",")
                    for (k = 1; k <= parts; k++) {
                        sub(/\[.*/, "", names[k])
                        n = split(names[k], words, /[ *]+/)
                        printf "    FIELD(%s, %s)\n", name, words[n]
                    }
                }
                next
            }
            inside { text = text " " $0 }'
    done
    printf '%s\n' '    return 0;'
    printf '%s\n' '}'
} >"$2"
