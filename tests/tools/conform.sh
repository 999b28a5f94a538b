#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# conform.sh TOOL PLUGIN: what dhow-conform makes of its command line, of expectations and of files that are no plugins.
set -u
tool=$1 plugin=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failures=0

# check STATUS TEXT ARGUMENT...: the tool ends with the status and says the text.
check() {
    status=$1 text=$2
    shift 2
    out=$("$tool" "$@" 2>&1)
    got=$?
    if [ $got != "$status" ] || ! echo "$out" | grep -q -- "$text"; then
        echo "dhow-conform $*: status $got, expected $status and '$text':" && echo "$out"
        failures=$((failures + 1))
    fi
}

check 2 "which plugin?"
check 2 "unrecognized option" --nonsense "$plugin"
check 0 "usage: dhow-conform" --help
check 0 "^transfer/rows .*copy,strided" --list
check 2 "no case is called 'nothing'" "$plugin" nothing
check 2 "there is no such file" "$dir/libdhow_none.so"
check 2 "is not called libdhow_<backend>.so" "$0"
check 2 "neither a number nor 'all'" --device first "$plugin"
check 2 "sim has 2 devices, --device 7 is none of them" --device 7 "$plugin" abi
check 2 "is no number of seconds" --timeout 0 "$plugin"
check 2 "is no VARIABLE=VALUE" --async-fault nonsense "$plugin"

check 0 "2 passed, 0 failed, 0 unsupported" "$plugin" order/wait
check 0 "3 passed, 0 failed, 0 unsupported" --device all "$plugin" order/wait
check 0 "^unsupported .*fault/async .*no --async-fault is given" "$plugin" fault
check 0 "^pass .*order/sync" "$plugin" order '!order/wait'
"$tool" "$plugin" order '!order/wait' | grep -q 'order/wait$' && echo "'!order/wait' ran" && failures=1

# Expectations: of what fails, of what passes, and lists that make no sense.
export DHOW_SIM_PLANT=fill_cut
check 1 "^FAIL .*transfer/fill .*a pattern of 8" "$plugin" transfer/fill
echo "transfer/fill  # the driver knows no such patterns" >"$dir/known"
check 0 "^expected failure  transfer/fill .*the driver knows no such patterns (.*a pattern of 8" --expect "$dir/known" "$plugin" transfer/fill
check 0 "1 passed, 0 failed, 0 unsupported, 1 expected failure$" --expect "$dir/known" "$plugin" transfer/fill
export DHOW_SIM_PLANT=none
check 1 "^FAIL .*transfer/fill .*it passes, and is listed as failing; remove it" --expect "$dir/known" "$plugin" transfer/fill
echo "transfer/fill" >"$dir/unexplained"
check 2 "unexplained:1: write '# why' behind 'transfer/fill'" --expect "$dir/unexplained" "$plugin"
printf '# known\n\ntransfer/nowhere  # it is gone\n' >"$dir/unknown"
check 2 "unknown:3: no case is called 'transfer/nowhere'" --expect "$dir/unknown" "$plugin"
check 2 "No such file" --expect "$dir/absent" "$plugin"

# What does not load is told in the loader's words.
echo "no library" >"$dir/libdhow_text.so"
check 1 "^FAIL .*load .*NOT_ELF" "$dir/libdhow_text.so"
check 1 "^FAIL .*abi/exports .*it is no ELF file" "$dir/libdhow_text.so"
export DHOW_SIM=devices=0
check 1 "^FAIL .*load .*NO_DEVICE: the simulated machine has no devices; hint: set DHOW_SIM=devices=2" "$plugin"
unset DHOW_SIM

# JSON is the same, for programs.
export DHOW_SIM_PLANT=crash
"$tool" --json "$plugin" transfer 2>/dev/null >"$dir/json"
[ $? = 1 ] || { echo "--json: wrong status" && failures=1; }
for text in '"backend": "sim"' '"failed": 1' '"name": "transfer/planes"' '"reason": "crashed (SIGSEGV)"' '"result": "pass"' '"device": "sim:0"'; do
    grep -q "$text" "$dir/json" || { echo "--json lacks $text" && cat "$dir/json" && failures=1; }
done
if command -v python3 >/dev/null; then python3 -m json.tool <"$dir/json" >/dev/null || { echo "--json is no JSON" && failures=1; }; fi
exit $((failures > 0))
