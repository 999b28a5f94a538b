#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Makes the wheel from a build, installs it into an environment of its own and runs python/tests there: wheel.sh SOURCE BUILD PYTHON
# PYTHON has pip and what the tests need (scripts/setup --test). Exit status 77: it has not.
set -eu
source=$1 build=$2 python=$3 work=$2/wheel
if ! "$python" -c 'import cffi, numpy, onnx, onnxruntime, pytest, setuptools, wheel' 2>"$build/wheel.missing"; then
    echo "skipped: $(tail -1 "$build/wheel.missing"); scripts/setup --test fetches what the wheel is built and tested with"
    exit 77
fi
if ! "$python" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(sysconfig.get_paths()["include"] + "/Python.h"))'; then
    echo "skipped: Python.h is not here; install python3-dev"
    exit 77
fi
PYTHON=$python "$source/scripts/wheel" --build "$build" --out "$work"

# Outside of the source tree, with the packages of PYTHON but another dhow; nothing is fetched.
rm -rf "$work/venv"
"$python" -m venv "$work/venv"
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
own=$("$work/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
echo "$packages" >"$own/packages.pth"
"$work/venv/bin/python" -m pip install --quiet --no-deps --no-index --ignore-installed --disable-pip-version-check "$work"/dhow-*.whl
cd "$work"
"$work/venv/bin/python" -c "import dhow, sys; sys.exit(0 if dhow.__file__.startswith('$own') else 'another dhow is found: ' + dhow.__file__)"
exec "$work/venv/bin/python" -B -m pytest -q -p no:cacheprovider -W error "$source/python/tests"
