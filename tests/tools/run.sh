#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh DHOW_RUN WRITE_MODELS: dhow-run as its users see it: what it says and how it ends.
run=$1
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
"$2" "$folder" || { echo "no models"; exit 1; }
open=$folder/open.onnx
failed=0

# says STATUS TEXT ARGUMENT...: it ends with STATUS, and what it prints holds TEXT.
says() {
    want=$1 text=$2
    shift 2
    "$run" --device cpu "$@" >"$folder/said" 2>&1
    got=$?
    if [ "$got" -ne "$want" ] || ! grep -qF -- "$text" "$folder/said"; then
        echo "dhow-run $*: status $got, wanted $want and '$text'; it said:"
        cat "$folder/said"
        failed=1
    fi
}

# The command line.
says 2 "no MODEL is given"
says 2 "one MODEL is expected, 'b' is too much" a b
says 2 "--help tells the options" --nonsense a
says 2 "--bench 0 is no count" --bench 0 a
says 2 "--shape is for random inputs" "$open" --shape x=1x3x2
says 2 "--shape x: write it as --shape NAME=1x3x224x224" "$open" --random --shape x
says 2 "--output y.npy: write it as --output NAME=FILE.npy" "$open" --random --output y.npy
says 2 "--output y=: write it as" "$open" --random --output y=
says 2 "--time-limit 0: write it in seconds, as --time-limit 2.5" --time-limit 0 a
says 2 "--time-limit 2s: write it in seconds" --time-limit 2s a
says 0 "2 for a command line that is none" --help

# Names.
says 1 "--input: the model has no input 'nope'; it has: x" "$open" --input nope=x.npy
says 1 "--shape: the model has no input 'nope'; it has: x" "$open" --random --shape nope=1
says 1 "--output: the model has no output 'nope'; it has: y" "$open" --random --output nope=y.npy
says 1 "--shape x is given twice" "$open" --random --shape x=1x3x1 --shape x=1x3x2
says 1 "input 'x' is missing: give --input x=FILE.npy, or --random" "$open"

# Shapes.
says 0 "input 'x' is f32[?, 3, ?]: its open extents (dimension 0, 2) are taken as 1; others are given as --shape x=1x3x1" \
    "$open" --random
says 0 "f32[2, 3, 5]" "$open" --random --shape x=2x3x5 --output y="$folder/y.npy"
if "$run" --device cpu "$open" --random --shape x=2x3x5 2>&1 | grep -q "taken as"; then
    echo "extents that are given are called open"
    failed=1
fi
says 1 "--shape x: f32[2, 4, 5] does not fit the model's f32[?, 3, ?]" "$open" --random --shape x=2x4x5
says 2 "--shape x=a: write it as --shape NAME=1x3x224x224" "$open" --random --shape x=a
says 2 "--shape x=1x3x2x: write it as" "$open" --random --shape x=1x3x2x
says 1 "input x: cpu:0: out of memory: asked 1.1 TiB" "$open" --random --shape x=99999999999x3x1
says 1 "of f32 has more bytes than an address holds" "$open" --random --shape x=9999999999999x3x9999999999999
says 1 "comes from $folder/y.npy, which has a shape" "$open" --input x="$folder/y.npy" --random --shape x=1x3x1
says 0 "f32[2, 3, 5]" "$open" --input "$folder/y.npy"
says 1 "2 inputs are given, the model has 1" "$open" --input "$folder/y.npy" --input "$folder/y.npy"

# Time.
says 0 "f32[2, 3, 5]" "$open" --random --shape x=2x3x5 --time-limit 60
says 1 "the run takes longer than its limit of 1e-09 s, which dhow_model_set_time_limit(), or dhow-run --time-limit, set" "$open" --random --time-limit 1e-9

# Files.
printf '\223NUMPY\001\000v\000%-117s\n%080d' "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3, 1), }" 0 >"$folder/wide.npy"
says 1 "input 'x': $folder/wide.npy has f64, the model wants f32" "$open" --input x="$folder/wide.npy"
echo "A text, no model." >"$folder/text"
says 1 "$folder/text is no ONNX file, or a damaged one" "$folder/text"
says 1 "cannot open" "$folder/none"
says 1 "input 'x' is an array of texts: give --input x=FILE, with one in each line" "$folder/text.onnx" --random
says 0 "texts[?]" "$folder/text.onnx" --list
printf 'Monday\nTuesday' >"$folder/days"
says 0 'texts[2]  "Monday"  "Tuesday"' "$folder/text.onnx" --input x="$folder/days" --output y="$folder/days.y"
[ "$(wc -l <"$folder/days.y")" -eq 2 ] || { echo "two texts are not two lines"; cat "$folder/days.y"; failed=1; }
says 0 "0 texts differ" "$folder/text.onnx" --input x="$folder/days" --compare sim
says 1 "input x: cannot open $folder/no.days" "$folder/text.onnx" --input x="$folder/no.days"
printf 'Mon\000day' >"$folder/zero"
says 1 "is no file of texts: it has a character 0" "$folder/text.onnx" --input x="$folder/zero"
says 0 "f32[?, 3, ?]" "$open" --list

says 1 "--output $folder/none/y.npy: No such file" "$folder/text" --output y="$folder/none/y.npy" # before the model is opened
DHOW_DEVICE=nope "$run" "$open" --list >"$folder/said" 2>&1 || { echo "--list wants a device"; cat "$folder/said"; failed=1; }

says 0 "in use on the device" "$open" --random --report
says 0 "1 step " "$open" --random --report
says 0 " ms  kernel     result" "$open" --random --report
says 0 "f32[1, 3, 1]" "$open" --random --report
says 0 '"by_step"' "$open" --random --report --json
"$run" --device cpu "$folder/text.onnx" --list --json | grep -q load_ms || { echo "no load_ms"; failed=1; }

# In 16 bits.
says 0 "f32[1, 3, 1]" "$open" --random --precision bf16
says 0 "largest difference" "$open" --random --precision f16 --compare cpu
says 0 "f32[1, 3, 1]" "$open" --random --precision tf32
says 2 "--precision f8: it is f32, tf32, bf16 or f16" "$open" --random --precision f8

# Measuring.
says 0 "one more untimed, then" "$open" --random --bench 2
says 0 '"untimed_runs": 1' "$open" --random --bench 2 --json

# More outputs than options can name.
says 0 "y69 " "$folder/many.onnx" --random --output y69="$folder/y69.npy" --bench 2 --compare sim

# A second device that has no kernel for something.
export DHOW_SIM=without=map_f32
says 1 "--compare: Neg (node 'minus'" "$open" --random --compare sim
says 0 "largest difference 0" "$open" --random --compare sim --fallback
unset DHOW_SIM

# A trace, of measured runs too, and of a run that fails.
says 0 "records in $folder/trace.json" "$open" --random --device sim --bench 20 --trace "$folder/trace.json"
for what in '"ph":"X","cat":"step"' '"name":"sim:0"' '"cat":"copy"'; do
    grep -qF -- "$what" "$folder/trace.json" || { echo "the trace has no $what"; failed=1; }
done
says 0 '"records": ' "$open" --random --json --trace "$folder/trace.json"
says 1 "--trace $folder/none/trace.json: No such file" "$open" --random --trace "$folder/none/trace.json"
says 1 "--shape x: f32[2, 4, 5]" "$open" --random --shape x=2x4x5 --trace "$folder/failed.json"
grep -q traceEvents "$folder/failed.json" || { echo "a run that fails leaves no trace"; failed=1; }

# No message names a function that users did not call, and what cannot be written is an error.
printf 'nothing' >"$folder/bad.npy"
says 1 "input x: " "$open" --input x="$folder/bad.npy"
if grep -q "dhow_" "$folder/said"; then
    echo "a message names a function:"
    cat "$folder/said"
    failed=1
fi
if [ -w /dev/full ]; then
    "$run" --device cpu "$open" --list >/dev/full 2>"$folder/said" && { echo "a full device is no error"; failed=1; }
    grep -q "cannot write" "$folder/said" || { echo "a full device gives no reason"; failed=1; }
fi
exit $failed
