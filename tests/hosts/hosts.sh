#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# hosts.sh CASE HOST_MAIN DEVINFO PLUGINS; 77 where this machine cannot show the case.
set -eu
case=$1 main=$2 devinfo=$3 plugins=$4
folder=$(mktemp -d /tmp/dhow-host-XXXXXX)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
fail() { echo "$case: $*" >&2; exit 1; }
skip() { echo "$case: left out: $*"; exit 77; }
# says WORDS FILE: the text says them.
says() { grep -qF "$1" "$2" || { cat "$2" >&2; fail "'$1' is not said"; }; }

# A copy of the program that has another owner's rights, outside a checkout that only root may enter.
make_setuid() {
    [ "$(id -u)" -eq 0 ] || skip "needs root"
    command -v setpriv >/dev/null || skip "needs setpriv"
    cp "$main" "$folder/main"
    chmod 4755 "$folder/main"
    ! findmnt -no OPTIONS -T "$folder" 2>/dev/null | grep -q nosuid || skip "/tmp is mounted nosuid"
    # Where the libraries lie below a folder that others may not enter, the loader does not see them.
    lib=$(ldd "$main" | sed -n 's/.*libdhow[^ ]* => \([^ ]*\) .*/\1/p')
    cp "$lib" "$folder/"
}
as_other() { (cd / && setpriv --reuid=65534 --regid=65534 --clear-groups "$@"); }

case $case in
sigchld_ignored) "$main" --sigchld build ;;
no_proc)
    [ "$(id -u)" -eq 0 ] || skip "needs root"
    unshare --mount true 2>/dev/null || skip "no mount namespaces here"
    unshare --mount --propagation private sh -c 'umount -l /proc && exec "$@"' sh \
        env DHOW_BACKENDS=cpu "$main" build
    ;;
tmpdir)
    ! TMPDIR=/proc/nowhere "$main" build 2>"$folder/text" || fail "it built without a folder"
    says "/proc/nowhere" "$folder/text"
    says "set TMPDIR to a folder that can be written to" "$folder/text"
    ;;
secure_mode)
    make_setuid
    ! DHOW_PLUGIN_PATH=$plugins as_other "$folder/main" context 2>"$folder/text" ||
        skip "dhow is installed where secure programs look"
    says "secure mode" "$folder/text"
    says "plugin_path in dhow_context_options" "$folder/text"
    ;;
secure_mode_with_a_path)
    make_setuid
    as_other "$folder/main" --plugins "$plugins" context
    ;;
isolate)
    # One of dhow's own plugins, whose driver aborts: those of other folders have processes of their own anyway.
    lib=$(ldd "$main" | sed -n 's/.*libdhow[^ ]* => \([^ ]*\) .*/\1/p')
    mkdir -p "$folder/lib/dhow/plugins" "$folder/libexec"
    cp "$lib" "$folder/lib/"
    cp "$plugins/libdhow_cpu.so" "$folder/lib/dhow/plugins/"
    cp "$(dirname "$(readlink -f "$lib")")/../libexec/dhow-probe" "$folder/libexec/"
    echo '#include <stdlib.h>
__attribute__((constructor)) static void die(void) { abort(); }
int dhow_plugin_v1;' >"$folder/dies.c"
    cc -shared -fPIC -o "$folder/lib/dhow/plugins/libdhow_dies.so" "$folder/dies.c"
    export LD_LIBRARY_PATH="$folder/lib"
    ! "$main" devices 2>/dev/null || fail "the plugin does not abort"
    DHOW_ISOLATE=1 "$main" devices
    ! DHOW_ISOLATE=perhaps "$main" context 2>"$folder/text" || fail "'perhaps' was taken"
    says "DHOW_ISOLATE: 'perhaps' is none of 0, 1, on, off" "$folder/text"
    ;;
pocl_without_home)
    env -u XDG_CACHE_HOME "$devinfo" | grep -q "Portable Computing" || skip "there is no PoCL"
    env -u XDG_CACHE_HOME -u POCL_CACHE_DIR HOME=/proc/nowhere DHOW_CACHE_DIR=off "$devinfo" >"$folder/text"
    says "'Portable Computing Language' shows no device" "$folder/text"
    says "POCL_CACHE_DIR" "$folder/text"
    ;;
*) fail "no such case" ;;
esac
