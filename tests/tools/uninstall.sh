#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The target uninstall takes files and dhow's empty folders, and nothing of others: uninstall.sh CMAKE SOURCE
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/dhow/prefix # whose own name does not count
for file in include/dhow/cpp/model.hpp include/dhow/dhow.h lib/dhow/plugins/libdhow_cpu.so lib/cmake/dhow/dhow-config.cmake \
    lib/libdhow.so share/doc/dhow/docs/plots/a.svg share/doc/dhow/README.md; do
    mkdir -p "$(dirname "$prefix/$file")"
    echo "$prefix/$file" >>"$work/manifest"
    : >"$prefix/$file"
done
: >"$prefix/lib/dhow/plugins/libdhow_mine.so"
"$1" -DMANIFEST="$work/manifest" -P "$2/cmake/DhowUninstall.cmake" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
(cd "$prefix" && find . -mindepth 1 | sort) >"$work/left"
printf '%s\n' ./include ./lib ./lib/cmake ./lib/dhow ./lib/dhow/plugins ./lib/dhow/plugins/libdhow_mine.so ./share ./share/doc | sort |
    diff - "$work/left" || { echo "what is left (>) is not what is to be left (<)"; exit 1; }
