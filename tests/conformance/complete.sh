#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every public function that hands work to a stream is called by some case: complete.sh SOURCE LIBRARY
set -u
source=$1 library=$2
# The native handles of streams are for programs beside CUDA and OpenCL: tests/fakecuda and examples/interop have them.
apart='dhow_stream_native dhow_stream_wait_native'
nm -u "$library" | awk '{ print $2 }' | sort -u >called.txt
missing=$(cat "$source"/include/dhow/*.h | tr -s '\n ' ' ' | grep -oE 'DHOW_NODISCARD dhow_status dhow_[a-z0-9_]+\( ?dhow_stream \*' |
    sed 's/.*dhow_status \(dhow_[a-z0-9_]*\).*/\1/' | sort -u | comm -23 - called.txt)
status=0
for name in $missing; do
    case " $apart " in
        *" $name "*) ;;
        *) echo "complete: no case of dhow-conform calls $name()"; status=1 ;;
    esac
done
[ -s called.txt ] || { echo "complete: $library calls nothing"; exit 1; }
exit $status
