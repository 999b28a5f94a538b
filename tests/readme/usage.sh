#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Words that an example does not know get its usage and exit status 2, before any work: usage.sh FOLDER PROGRAM...
set -u
folder=$1
shift
failed=0
# refused PROGRAM [WORD...]
refused() {
    program=$1
    shift
    said=$("$folder/$program" "$@" 2>&1 >/dev/null)
    status=$?
    case "$status:$said" in
        2:*usage:*"$program"*) ;;
        *) echo "usage: $program $* gave $status: $said"; failed=1 ;;
    esac
}
for program; do
    refused "$program" --nonsense
    refused "$program" two words too many
    case $program in
        digits-train)
            for number in 0 -1 1001 ten 99999999999999999999; do refused "$program" --epochs "$number"; done
            refused "$program" --seed 18446744073709551616
            refused "$program" $(for i in 1 2 3 4 5 6 7 8 9; do echo --device cpu; done)
            ;;
        generate)
            for number in 0 -1 ten 1000001; do refused "$program" --train --steps "$number"; done
            refused "$program" --train --width 33
            refused "$program" --train --temperature -1
            ;;
        cutout) refused "$program" one two ;;
    esac
done
exit $failed
