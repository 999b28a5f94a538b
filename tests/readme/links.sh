#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# links.sh CMAKE SOURCE BUILD: what documents link to is there, with its heading, in the source tree and where they are installed.
set -eu
cmake=$1 source=$2 build=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for component in runtime development; do
    "$cmake" -DCMAKE_INSTALL_PREFIX="$work" -DCMAKE_INSTALL_COMPONENT=$component -P "$build/cmake_install.cmake" >"$work/log" 2>&1 ||
        { cat "$work/log"; exit 1; }
done
installed=$(dirname "$(find "$work" -name docs -type d -path '*/dhow/docs')")
failed=0
# As GitHub names headings: lower case, without punctuation, with hyphens for spaces.
anchors() { sed -n 's/^##* //p' "$1" | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g'; }
check() { # ROOT DOCUMENT
    folder=$(dirname "$1/$2")
    for link in $(grep -oE '\]\([^) ]+\)' "$1/$2" | sed 's/^](//; s/)$//' | grep -vE '^(https?|mailto):' | sort -u); do
        path=${link%%#*} anchor=
        case $link in *'#'*) anchor=${link#*#} ;; esac
        target=$1/$2
        [ -z "$path" ] || target=$folder/$path
        if [ ! -e "$target" ]; then
            echo "$1/$2 links to $link, which is not there"
            failed=1
        elif [ -n "$anchor" ] && ! anchors "$target" | grep -qxe "$anchor"; then
            echo "$1/$2 links to $link: $path has no such heading"
            failed=1
        fi
    done
}
(cd "$source" && ls README.md CHANGELOG.md docs/*.md) >"$work/documents"
while read -r document; do
    check "$source" "$document"
    check "$installed" "$document"
done <"$work/documents"
(cd "$source" && ls CONTRIBUTING.md SECURITY.md docs/reference/*.md examples/*/*.md) >"$work/others"
while read -r document; do check "$source" "$document"; done <"$work/others"
exit $failed
