# SPDX-License-Identifier: Apache-2.0
import pathlib

import pytest

import dhow

SOURCE = pathlib.Path(__file__).resolve().parents[2]
DEVICES = [device.name for device in dhow.devices()]


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


@pytest.fixture
def digits():
    return SOURCE / "examples" / "digits"
