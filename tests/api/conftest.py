import pytest
from tests.api.fronts import Front, make_front


@pytest.fixture
def front() -> Front:
    """The plainest one: every reply is "Hello there."."""
    return make_front()
