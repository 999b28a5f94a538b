#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes C tables of the kernels that the preprocessor lists (-DK_LIST) in the units given.
#   kernel_table.sh core  <out.c> <cc> <include> <kernels> <unit:type:isa,isa>...   names, signatures and texts
#   kernel_table.sh isas  <out.c> <cc> <include> <kernels> <function> <isa,isa> <unit:type:isa,isa>...
#       `function(name)` gives the entry of a kernel with one pointer per instruction set, best first where it was built
#   kernel_table.sh cuda  <out.c> <cc> <include> <kernels> <unit:type:isas>...      names and units, for plugins/cuda
#   kernel_table.sh fatbins <out.c> - - - <folder> <unit:type:isas>...              the fat binaries of those units
set -eu
export LC_ALL=C
mode=$1 out=$2 cc=$3 include=$4 kernels=$5
shift 5
case $mode in
isas) function=$1 isas=$2; shift 2 ;;
fatbins) folder=$1; shift ;;
esac

# "name|signature|unit|type|isas" of every kernel, sorted by name
list=$out.list
[ "$mode" = fatbins ] || for unit in "$@"; do
    file=${unit%%:*} rest=${unit#*:}
    type=${rest%%:*} built=${rest#*:}
    "$cc" -E -P -x c -DK_LIST -DT="$type" -I"$include" "$kernels/$file.k" |
        sed -n 's/^ *@K \([a-z0-9_]*\) "\(.*\)".*$/\1|\2|'"$file|$type|$built"'/p'
done | LC_ALL=C sort -t '|' -k 1,1 >"$list"

# Headers that several units have, each behind what it needs.
shared="lanes rows packs panels pools experts sixteen fours"
names=$(echo "$shared" | tr ' ' '|')

# A text that is as short as it can be: the includes of k.h and of shared headers are blanked, because they go in front, and
# another header beside the text takes the place of its include. Lines that are comments stay as empty ones, so that compilers
# count right, and lines begin and go on without spaces, as they do around most operators and behind commas: two fifths of
# the bytes.
shorten() {
    awk -v folder="$(dirname "$1")" -v names="$names" '
        BEGIN {
            operators = split("= == != <= >= += \\&\\& < : ; > || | * + - / % << >> ? if( for( ){", tight, " ")
            split("[ ]=[ ]#[ ]==[ ]#[ ]!=[ ]#[ ]<=[ ]#[ ]>=[ ]#[ ][+]=[ ]#[ ]&&[ ]#[ ]<[ ]#[ ]:[ ]#;[ ]#[ ]>[ ]#[ ][|][|][ ]#[ ][|][ ]#" \
                  "[ ][*][ ]#[ ][+][ ]#[ ]-[ ]#[ ]/[ ]#[ ]%[ ]#[ ]<<[ ]#[ ]>>[ ]#[ ][?][ ]#if [(]#for [(]#[)] [{]", spaced, "#")
        }
        function put(line,    i) {
            if (inside) {
                if (line !~ /\*\//) { print ""; return }
                sub(/^.*\*\//, "", line)
                inside = 0
            }
            sub(/^[ \t]+/, "", line)
            if (line ~ /^\/\*/ && line !~ /\*\//) { inside = 1; line = "" }
            if (line ~ /^\/\*.*\*\/$/) line = ""
            if (line !~ /"/ && line !~ /^#[ ]*(if|elif|include|error|pragma)/ && line !~ /^#[ ]*define [A-Za-z_0-9]+ [-+*\/%<>|&=:]/ && line !~ /[-+] [-+]|\/ \*|0x[0-9a-f]*e [-+]/) { # which would be others: --, ++, a comment, 0x1e+1
                sub(/[ \t]*\/\*[^*]*\*\/$/, "", line)
                gsub(/, /, ",", line)
                for (i = 1; i <= operators; i++) gsub(spaced[i], tight[i], line)
            }
            if (line ~ /\\$/) sub(/[ \t]*\\$/, " \\", line)
            if (line ~ /[;{},] \\$/) sub(/ \\$/, "\\", line)
            print line
        }
        $0 ~ "^#include \"(dhow/kernel/k|" names ")[.]h\"$" { print ""; next }
        /^#include "[a-z_]+\.h"$/ { split($0, part, "\""); while ((getline line <(folder "/" part[2])) > 0) put(line); next }
        { put($0) }' "$1"
}

# The 128 words that make all texts shortest where each is one byte.
common_words() {
    cat "$@" | awk '
        {
            while (match($0, /[A-Za-z_][A-Za-z_0-9]+/)) {
                count[substr($0, RSTART, RLENGTH)]++
                $0 = substr($0, RSTART + RLENGTH)
            }
        }
        END { for (word in count) print (length(word) - 1) * count[word], word }' |
        sort -k 1,1nr -k 2 | sed -n '1,128s/.* //p'
}

# A shortened text as an array of numbers, since string literals have a length limit: words are bytes from 128 on.
bytes() {
    awk '
        NR == FNR { code[$0] = 127 + NR; next }
        {
            while (match($0, /[A-Za-z_][A-Za-z_0-9]+/)) {
                word = substr($0, RSTART, RLENGTH)
                printf "%s", substr($0, 1, RSTART - 1)
                if (word in code) printf "%c", code[word]; else printf "%s", word
                $0 = substr($0, RSTART + RLENGTH)
            }
            print
        }' "$words" "$1" | od -An -v -tu1 | sed 's/\([0-9][0-9]*\)/\1,/g'
    echo 0
}

core() {
    echo '#include "core/kernel/builtin.h"'
    awk -F '|' -v folder="$kernels" -v names="$names" '
        {
            if (!($3 in shares)) {
                shares[$3] = ""
                while ((getline line <(folder "/" $3 ".k")) > 0) {
                    if (line !~ "^#include \"(" names ")[.]h\"$") continue
                    split(line, part, "[\".]")
                    shares[$3] = shares[$3] " -DK_" toupper(part[2])
                }
            }
            row[NR] = sprintf("    {\"%s\", \"%s\", \"%s.k\", \"-DT=%s%s\"},", $1, $2, $3, $4, shares[$3])
        }
        END {
            print "const dhowi_builtin dhowi_builtin_kernels[] = {"
            for (i = 1; i <= NR; i++) print row[i]
        }' "$list"
    echo '};'
    echo 'const size_t dhowi_builtin_kernel_count = sizeof dhowi_builtin_kernels / sizeof dhowi_builtin_kernels[0];'
    units=$(for unit in "$@"; do echo "${unit%%:*}"; done | sort -u)
    short=$list.short words=$list.words
    mkdir -p "$short"
    {
        cat "$include/dhow/kernel/k.h"
        for name in $shared; do
            echo "#ifdef K_$(echo $name | tr a-z A-Z)" && cat "$kernels/$name.h" && echo '#endif'
        done
    } >"$list.header"
    shorten "$list.header" >"$short/header.h"
    for unit in $units; do shorten "$kernels/$unit.k" >"$short/$unit.k"; done
    common_words "$short"/* >"$words"
    echo 'const char *const dhowi_builtin_words[] = {'
    sed 's/.*/    "&",/' "$words"
    echo '};'
    echo 'const unsigned char dhowi_kernel_header[] = {'
    bytes "$short/header.h"
    echo '};'
    for unit in $units; do
        echo "static const unsigned char text_$unit[] = {"
        bytes "$short/$unit.k"
        echo '};'
    done
    rm -rf "$short" "$words" "$list.header"
    echo 'const dhowi_builtin_unit dhowi_builtin_units[] = {'
    for unit in $units; do echo "    {\"$unit.k\", text_$unit},"; done
    echo '};'
    echo 'const size_t dhowi_builtin_unit_count = sizeof dhowi_builtin_units / sizeof dhowi_builtin_units[0];'
}

isas() {
    echo '#include "kernels/cpu_table.h"'
    awk -F '|' '{ n = split($5, built, ","); for (i = 1; i <= n; i++) printf "extern const k_info %s__%s;\n", $1, built[i] }' "$list"
    echo 'static const cpu_kernel table[] = {'
    awk -F '|' -v isas="$isas" '
        BEGIN { count = split(isas, all, ",") }
        {
            n = split($5, built, ",")
            printf "    {\"%s\", \"%s\", {", $1, $3
            best = built[1]
            for (i = 1; i <= count; i++) {
                for (k = 1; k <= n; k++) if (built[k] == all[i]) best = all[i]
                printf "%s&%s__%s", (i == 1 ? "" : ", "), $1, best
            }
            print "}},"
        }' "$list"
    echo '};'
    echo "const cpu_kernel *$function(const char *name)"
    echo '{'
    echo '    return cpu_table_find(table, sizeof table / sizeof table[0], name);'
    echo '}'
    echo "const cpu_kernel *${function}_at(size_t index)"
    echo '{'
    echo '    return index < sizeof table / sizeof table[0] ? &table[index] : NULL;'
    echo '}'
}

# "unit type" lines, numbered from 0 in the order given
numbered() {
    number=0
    for unit in "$@"; do
        rest=${unit#*:}
        echo "$number ${unit%%:*} ${rest%%:*}"
        number=$((number + 1))
    done
}

cuda() {
    numbered "$@" >"$list.units"
    echo '#include "images.h"'
    echo 'const dhowi_cuda_builtin_name dhowi_cuda_builtin_names[] = {'
    awk -F '|' 'NR == FNR { split($0, part, " "); number[part[2] " " part[3]] = part[1]; next }
        { printf "    {\"%s\", %d},\n", $1, number[$3 " " $4] }' "$list.units" "$list"
    echo '};'
    echo 'const size_t dhowi_cuda_builtin_count = sizeof dhowi_cuda_builtin_names / sizeof dhowi_cuda_builtin_names[0];'
    echo "const uint32_t dhowi_cuda_unit_count = $#;"
    rm -f "$list.units"
}

fatbins() {
    echo '#include "images.h"'
    numbered "$@" | while read -r number unit type; do
        for bits in 32 64; do
            label=dhowi_cuda_fatbin_${number}_$bits
            file=$folder/$unit.$type.$bits.fatbin
            echo "__asm__(\".section .rodata; .balign 64; .hidden $label; .global $label; $label:\""
            echo "        \".incbin \\\"$file\\\"; .previous\");"
            echo "extern const unsigned char $label[];"
        done
    done
    echo 'const void *dhowi_cuda_image(uint32_t unit, uint32_t index_bits)'
    echo '{'
    echo '    static const unsigned char *const images[][2] = {'
    numbered "$@" | while read -r number unit type; do
        echo "        {dhowi_cuda_fatbin_${number}_32, dhowi_cuda_fatbin_${number}_64},"
    done
    echo '    };'
    echo '    return unit < sizeof images / sizeof images[0] ? images[unit][index_bits == 64] : NULL;'
    echo '}'
}

{
    echo '/* SPDX-License-Identifier: Apache-2.0'
    echo ' *'
    echo ' * Generated by cmake/kernel_table.sh from kernels/. */'
    "$mode" "$@"
} >"$out.tmp"
rm -f "$list"
mv "$out.tmp" "$out"
