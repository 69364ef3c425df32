import pytest
from tests.engine.grammar.texts import byte_vocabulary

from stoker.engine.grammar import GrammarCompiler


@pytest.fixture(scope="session")
def grammars() -> GrammarCompiler:
    return GrammarCompiler(byte_vocabulary)
