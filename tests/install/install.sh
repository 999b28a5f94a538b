#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs a build into a folder, builds a program and a plugin against that folder only, by CMake and by pkg-config,
# runs them, moves the folder and runs them again: install.sh CMAKE CC SOURCE BUILD GENERATOR
set -eu
cmake=$1 cc=$2 source=$3 build=$4 generator=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/first/prefix
# Another dhow that the caller's variables name is not the one to try.
unset DHOW_PLUGIN_PATH DHOW_DEVICE DHOW_BACKENDS DHOW_ISOLATE LD_LIBRARY_PATH 2>/dev/null || true
export DHOW_CACHE_DIR="$work/cache"
mkdir "$work/cache"
say() { echo "install: $*"; }
die() { echo "install: $*" >&2; exit 1; }

"$cmake" --install "$build" --prefix "$prefix" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
[ ! -e "$(find "$prefix" -name 'libdhow_sim.so')" ] || die "the plugin of simulated devices was installed"
for file in share/man/man1/devinfo.1 share/man/man7/dhow.7 share/doc/dhow/LICENSE share/doc/dhow/docs/models.md \
    share/doc/dhow/examples/digits/digits.c include/dhow/dhow.hpp; do
    [ -e "$prefix/$file" ] || die "$file is not installed"
done

# Outside of the source tree, with nothing but the prefix.
cp -r "$source/tests/install/program" "$source/tests/install/plugin" "$work"
"$cmake" -S "$work/program" -B "$work/outside" -G "$generator" -DCMAKE_C_COMPILER="$cc" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >"$work/cmake.log" || { cat "$work/cmake.log"; exit 1; }
"$cmake" --build "$work/outside" >"$work/cmake.log" || { cat "$work/cmake.log"; exit 1; }
! grep -q "$source" "$work/outside/compile_commands.json" || die "the outside project sees the source tree"

# refused WANTED TEXT: find_package(dhow WANTED) fails with that text.
refused() {
    mkdir -p "$work/refused"
    printf 'cmake_minimum_required(VERSION 3.20)\nproject(refused LANGUAGES C)\nfind_package(dhow %s REQUIRED)\n' "$1" >"$work/refused/CMakeLists.txt"
    ! "$cmake" -S "$work/refused" -B "$work/refused/build" -G "$generator" -DCMAKE_C_COMPILER="$cc" \
        -DCMAKE_PREFIX_PATH="$prefix" >"$work/cmake.log" 2>&1 || die "find_package(dhow $1) succeeds"
    tr -s ' \n' ' ' <"$work/cmake.log" | grep -q "$2" || { cat "$work/cmake.log"; die "find_package(dhow $1) does not say: $2"; }
}
refused 0.1 'requested version "0.1"'
refused 'COMPONENTS cuda' 'component'

# The examples as they are installed.
"$cmake" -S "$prefix/share/doc/dhow/examples" -B "$work/examples" -G "$generator" -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_PREFIX_PATH="$prefix" >"$work/cmake.log" && "$cmake" --build "$work/examples" >"$work/cmake.log" ||
    { cat "$work/cmake.log"; die "the installed examples do not build"; }
(cd "$work/examples" && DHOW_BACKENDS=cpu ./digits) >"$work/digits" || { cat "$work/digits"; die "the installed digits fail"; }
grep -q '99\.17' "$work/digits" || { cat "$work/digits"; die "the installed digits tell other digits"; }

[ "$(nm -D --defined-only "$work/outside/libdhow_toy.so" | awk '{print $3}')" = dhow_plugin_v1 ] ||
    die "the outside plugin exports more than dhow_plugin_v1"

pc=$(dirname "$(find "$prefix" -name dhow.pc)")
# shellcheck disable=SC2046
with_pkg_config() {
    PKG_CONFIG_PATH=$1 "$cc" -std=c11 -Wall -Wextra -Werror "$work/program/outside.c" -o "$work/by-pkg-config" \
        $(PKG_CONFIG_PATH=$1 pkg-config --cflags --libs dhow)
}
with_pkg_config "$pc"
case $(PKG_CONFIG_PATH=$pc pkg-config --variable=plugindir dhow) in
    */dhow/plugins) ;;
    *) die "pkg-config has no plugindir" ;;
esac

# check PREFIX: the programs run and devinfo lists the plugin.
check() {
    lib=$(dirname "$(find "$1" -name libdhow.so)")
    DHOW_PLUGIN_PATH=$work/outside LD_LIBRARY_PATH=$lib "$work/outside/outside"
    DHOW_PLUGIN_PATH=$work/outside LD_LIBRARY_PATH=$lib "$work/by-pkg-config"
    [ ! -e "$lib/libdhow_mpi.so" ] || LD_LIBRARY_PATH=$lib "$work/outside/outside_mpi" || die "dhow::dhow_mpi fails"
    DHOW_PLUGIN_PATH=$work/outside "$1/bin/devinfo" >"$work/devinfo"
    grep -q 'toy:0' "$work/devinfo" && grep -Eq 'toy +READY|READY.*libdhow_toy' "$work/devinfo" ||
        { cat "$work/devinfo"; die "devinfo does not show the outside plugin"; }
    # Without the variable, in the folder where plugins are looked for.
    plugins=$lib/dhow/plugins
    cp "$work/outside/libdhow_toy.so" "$plugins"
    "$1/bin/devinfo" --device toy:0 >"$work/devinfo" || { cat "$work/devinfo"; die "the plugin folder is not searched"; }
    rm "$plugins/libdhow_toy.so"
    DHOW_BACKENDS=cpu "$1/bin/devinfo" --check >"$work/devinfo" || { cat "$work/devinfo"; die "devinfo --check fails"; }
}
check "$prefix"
! grep -q DUPLICATE "$work/devinfo" || { cat "$work/devinfo"; die "devinfo lists a plugin twice"; }
say "works where it was installed"
mkdir "$work/second"
mv "$prefix" "$work/second/moved"
rm -rf "$work/first"
pc=$(dirname "$(find "$work/second/moved" -name dhow.pc)")
with_pkg_config "$pc"
"$cmake" --fresh -S "$work/program" -B "$work/outside" -G "$generator" -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_PREFIX_PATH="$work/second/moved" >"$work/cmake.log" || { cat "$work/cmake.log"; exit 1; }
"$cmake" --build "$work/outside" >"$work/cmake.log" || { cat "$work/cmake.log"; exit 1; }
check "$work/second/moved"
say "works where it was moved to"
