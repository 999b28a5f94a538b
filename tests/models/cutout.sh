#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cutout.sh CUTOUT WORK: the example cuts a red disc out of a blue picture. Needs u2netp in DHOW_MODELS_DIR.
set -eu
cutout=$1 work=$2
model=${DHOW_MODELS_DIR:-}/u2netp/model.onnx
[ -e "$model" ] || { echo "no u2netp: DHOW_MODELS_DIR names a folder with it"; exit 77; }
mkdir -p "$work"
LC_ALL=C awk 'BEGIN {
    printf "P6\n# a disc\n120 90\n255\n"
    for (y = 0; y < 90; y++) for (x = 0; x < 120; x++)
        if ((x - 60) ^ 2 + (y - 45) ^ 2 < 900) printf "%c%c%c", 200, 60, 40; else printf "%c%c%c", 90, 150, 220
}' >"$work/disc.ppm"
"$cutout" "$model" "$work/disc.ppm" "$work/cut.ppm"
pixel() { od -An -tu1 -j $(($1)) -N 3 "$work/cut.ppm" | tr -s ' ' ' '; }
header=$(printf 'P6\n120 90\n255\n' | wc -c)
middle=$(pixel "$header + (45 * 120 + 60) * 3")
corner=$(pixel "$header")
echo "middle$middle, corner$corner"
[ "$corner" = " 255 255 255" ] || { echo "the background is still there"; exit 1; }
[ "$(echo "$middle" | awk '{print ($1 > 180 && $2 < 100 && $3 < 80)}')" = 1 ] || { echo "the disc is gone"; exit 1; }
for wrong in "$work/none.ppm" "$work/disc.ppm.short"; do
    head -c 1000 "$work/disc.ppm" >"$work/disc.ppm.short"
    if "$cutout" "$model" "$wrong" "$work/x.ppm" 2>"$work/log"; then echo "$wrong is no picture"; exit 1; fi
    grep -q "$wrong" "$work/log" || { echo "the message does not name $wrong"; exit 1; }
done
