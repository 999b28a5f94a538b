#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make.sh SOURCE VERSION FOLDER: writes the reference into a folder with Doxygen. Comments that it does not understand are errors,
# and every public function must be there.
set -eu
export DHOW_SOURCE="$1" DHOW_VERSION="$2" DHOW_REFERENCE="$3"
rm -rf "$DHOW_REFERENCE"
mkdir -p "$DHOW_REFERENCE"
doxygen "$DHOW_SOURCE/docs/reference/Doxyfile"
grep -ohE '^DHOW_API [^(]*\(' "$DHOW_SOURCE"/include/dhow/*.h | grep -oE 'dhow_[a-z0-9_]+\($' | tr -d '(' | sort -u |
    while read -r function; do
        grep -q ">$function</a>" "$DHOW_REFERENCE"/group__*.html || { echo "reference: $function is missing"; exit 1; }
    done
