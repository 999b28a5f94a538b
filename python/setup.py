# SPDX-License-Identifier: Apache-2.0
"""Called by scripts/wheel in a copy of this folder, where dhow/lib holds the libraries. DHOW_SOURCE is the source tree."""
import os

from setuptools import setup

setup(
    name="dhow",
    version=os.environ["DHOW_VERSION"],
    description="Tensors and models on whatever devices a machine has",
    license="Apache-2.0",
    packages=["dhow"],
    package_data={"dhow": ["py.typed", "*.pyi", "lib/*", "lib/dhow/plugins/*", "libexec/*", "licenses/*"]},
    python_requires=">=3.9",
    install_requires=["cffi>=1.15", "numpy>=1.22"],
    cffi_modules=["build_extension.py:ffi"],
    options={"bdist_wheel": {"py_limited_api": "cp39"}},
    zip_safe=False,
)
