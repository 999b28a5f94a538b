#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# kernels.sh TOOL PLUGIN TABLE: the cases launch every kernel of TABLE, the generated list of those in kernels/, on a device
# without a vendor's library.
set -u
tool=$1 plugin=$2 table=$3
# What no case can launch there:
#   a plugin's own convolutions launch these: tests/fakecuda/conv_test.c and tests/unit/kernels_nhwc_test.c have them
apart='im2col_* depthwise_*'
#   the maximum behind a vendor's convolution in blocks of channels: tests/graphs and tests/unit/kernels_nhwc_test.c
apart="$apart pool_blocks_*"
#   one kernel for all time steps is in its place on processors: tests/unit/recurrent_test.c has both forms
apart="$apart lstm_cell_f32"
#   a cast to the same type is a copy
for type in f32 f64 f16 bf16 i8 i32 i64; do apart="$apart cast_${type}_$type"; done

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
DHOW_SIM_LAUNCHED=$work/launched "$tool" --timeout 120 "$plugin" memory copy kernel ops functions reductions arrange create scalars \
    layers models rows training >"$work/out" || { grep '^FAIL' "$work/out"; exit 1; }
grep -oE '^ *\{"[a-z0-9_]+"' "$table" | tr -d ' {"' | sort -u >"$work/all"
sort -u "$work/launched" >"$work/reached"
[ "$(wc -l <"$work/all")" -gt 400 ] || { echo "kernels: $table has another form"; exit 1; }
status=0
for name in $(comm -23 "$work/all" "$work/reached"); do
    listed=no
    for pattern in $apart; do
        case $name in $pattern) listed=yes ;; esac
    done
    [ $listed = yes ] || { echo "kernels: no case of dhow-conform launches $name"; status=1; }
done
for pattern in $apart; do
    for name in $(cat "$work/reached"); do
        case $name in $pattern) echo "kernels: a case launches $name, which is said to be out of reach"; status=1 ;; esac
    done
done
exit $status
