#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs libdhow.a into a folder, links a program with it by CMake and by pkg-config, takes everything of dhow's away and
# runs it: static.sh CMAKE CC SOURCE BUILD GENERATOR BACKEND...
set -eu
cmake=$1 cc=$2 source=$3 build=$4 generator=$5
shift 5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
sim=${DHOW_SIM_PLUGIN:-}
unset DHOW_PLUGIN_PATH DHOW_DEVICE DHOW_BACKENDS DHOW_ISOLATE LD_LIBRARY_PATH 2>/dev/null || true
export DHOW_CACHE_DIR="$work/cache"
mkdir "$work/cache"
die() { echo "static: $*" >&2; exit 1; }

for component in runtime development static; do
    "$cmake" --install "$build" --prefix "$prefix" --component "$component" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
done
lib=$(dirname "$(find "$prefix" -name libdhow.a)")

# Of a plugin only its table is to be seen.
(cd "$work" && ar x "$lib/libdhow.a" $(ar t "$lib/libdhow.a" | grep '^plugin_.*\.o$' | grep -v '\.c\.o$'))
for backend; do
    [ "$(nm -g --defined-only "$work/plugin_$backend.o" | awk '{print $3}')" = "dhow_built_in_$backend" ] ||
        die "the plugin $backend shows more than its table"
done

cp -r "$source/tests/install/embedded" "$work/embedded"
"$cmake" -S "$work/embedded" -B "$work/by-cmake" -G "$generator" -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix" \
    >"$work/cmake.log" || { cat "$work/cmake.log"; exit 1; }
"$cmake" --build "$work/by-cmake" >"$work/cmake.log" || { cat "$work/cmake.log"; exit 1; }
rm "$lib"/libdhow.so* # the linker would take it
pc=$(dirname "$(find "$prefix" -name dhow.pc)")
# shellcheck disable=SC2046
"$cc" -std=c11 -Wall -Wextra -Werror "$work/embedded/embedded.c" -o "$work/by-pkg-config" \
    $(PKG_CONFIG_PATH=$pc pkg-config --static --cflags --libs dhow)
rm -rf "$prefix"

for program in by-cmake/embedded by-pkg-config; do
    ! ldd "$work/$program" | grep dhow || die "$program needs a library of dhow's"
    "$work/$program" "$@" >"$work/out" || { cat "$work/out"; die "$program fails"; }
    grep -q '^cpu:0 computes' "$work/out" || { cat "$work/out"; die "$program has no cpu:0"; }
    # A plugin that is a file is found where it is named, and DHOW_ISOLATE needs no file of what is built in.
    [ -z "$sim" ] || DHOW_PLUGIN_PATH=$sim DHOW_ISOLATE=1 DHOW_SIM=devices=1 "$work/$program" "$@" >"$work/out" 2>"$work/warnings" || { cat "$work/out" "$work/warnings"; die "$program fails"; }
    [ -z "$sim" ] || grep -q '^sim:0 computes' "$work/out" || { cat "$work/out"; die "$program does not find a plugin's file"; }
    ! grep -E '(cpu|opencl|cuda) is probed' "$work/warnings" || die "what is built in was to be probed in another process"
done
cat "$work/out"
