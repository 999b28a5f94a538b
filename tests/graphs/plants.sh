#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# plants.sh CORE OUT: lists the mistakes that can be planted, from the guards in the source.
set -eu
grep -rhoE 'DHOWI_GUARD\([a-z_]+' "$1" --include=*.c | sed 's/.*(//; s/.*/PLANT(&)/' | sort -u >"$2"
