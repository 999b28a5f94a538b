# SPDX-License-Identifier: Apache-2.0
import pathlib
import subprocess
import sys

import pytest

import dhow

USE = """import dhow
x: dhow.Tensor = dhow.relu(dhow.tensor([1.0]) + 1)
n: tuple[int, ...] = x.shape
reveal_type(dhow.topk(x, 1, 0))
reveal_type(dhow.Model().input("x", "f32", (-1, 4)))
dhow.relu("x")
"""


def test_types_are_told_and_kept(tmp_path):
    pytest.importorskip("mypy")
    (tmp_path / "use.py").write_text(USE)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache")]
    said = subprocess.run([*command, str(tmp_path / "use.py")], capture_output=True, text=True, check=False, cwd=tmp_path).stdout
    assert "tuple[dhow._tensor.Tensor, dhow._tensor.Tensor]" in said and 'Revealed type is "int"' in said.replace("builtins.int", "int")
    assert said.count("error:") == 1 and 'use.py:6: error: Argument 1 to "relu" has incompatible type "str"' in said, said
    inside = subprocess.run([*command, "-p", "dhow"], capture_output=True, text=True, check=False, cwd=pathlib.Path(dhow.__file__).parents[1])
    assert inside.returncode == 0, inside.stdout
