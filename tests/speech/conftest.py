from collections.abc import Iterator

import pytest
import torch
from tests.speech.fakes import LentDevice


@pytest.fixture(autouse=True, scope="package")
def _one_thread():
    """As in a server: these tensors are too small for a team."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def device() -> Iterator[LentDevice]:
    device = LentDevice()
    yield device
    device.close()
