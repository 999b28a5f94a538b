#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The example that writes on: a few steps of training lower the loss, its weights give the same bytes on all devices, and
# what is wrong is told: generate.sh PROGRAM SOURCE DEVICE...
set -u
program=$1 source=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
fail() { echo "generate: $*"; failed=1; }

"$program" --train "$source/LICENSE" --steps 40 --layers 2 --width 64 --context 32 --device cpu \
    --output "$work/w.safetensors" >"$work/losses" || fail "training fails"
cat "$work/losses"
awk '$1 == "step" { loss = $4; if (!first) first = loss } END { exit !(loss > 0 && loss < 0.8 * first) }' "$work/losses" ||
    fail "the loss does not fall"

# written DEVICE WORD...: what it writes, which is to be the prompt and 100 bytes more.
written() {
    device=$1
    shift
    "$program" --weights "$work/w.safetensors" --prompt "You may " --tokens 100 --device "$device" "$@" \
        >"$work/$device" 2>"$work/costs" || { cat "$work/costs"; fail "$device fails"; }
    # Plans are for the prompt, the next byte, and the latter half of the text that is read anew: none for each length.
    grep -Eq "^$device.*tokens per second; 3 plans.*MiB" "$work/costs" || { cat "$work/costs"; fail "$device tells no costs"; }
}
for device; do
    written "$device" --temperature 0
    [ "$(wc -c <"$work/$device")" = 109 ] && grep -q '^You may ' "$work/$device" || fail "$device does not write 100 bytes"
    cmp "$work/$1" "$work/$device" || fail "$device does not write what $1 writes"
done
written "$1" --seed 5
cp "$work/$1" "$work/five"
written "$1" --seed 5
cmp "$work/$1" "$work/five" || fail "a seed gives two texts"
written "$1" --seed 6
! cmp -s "$work/$1" "$work/five" || fail "two seeds give one text"

# refused STATUS TEXT WORD...: the program ends with that status and says that text.
refused() {
    wanted=$1 text=$2
    shift 2
    said=$("$program" "$@" 2>&1 >/dev/null)
    status=$?
    case "$status:$said" in
        "$wanted":*"$text"*) ;;
        *) fail "$* gave $status, not $wanted: $text: $said" ;;
    esac
}
refused 2 "the prompt is empty" --weights "$work/w.safetensors" --prompt ""
refused 2 "--weights wants a --prompt" --weights "$work/w.safetensors"
refused 2 "either trains" --prompt "You may "
refused 2 "--output is for --train" --weights "$work/w.safetensors" --prompt x --output y
refused 1 "nowhere" --weights "$work/nowhere" --prompt x
refused 1 "LICENSE" --weights "$source/LICENSE" --prompt x
refused 1 "no weights that generate" --weights "$source/examples/digits/digits.safetensors" --prompt x
refused 1 "nodevice" --weights "$work/w.safetensors" --prompt x --device nodevice
refused 1 "nowhere" --train "$work/nowhere"
# Before it trains, not days later.
refused 1 "nowhere/w: cannot write there" --train "$source/LICENSE" --steps 1000000 --output "$work/nowhere/w"
printf 'too short' >"$work/short"
refused 1 "has 9 bytes" --train "$work/short"
exit $failed
