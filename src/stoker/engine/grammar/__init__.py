"""Grammars that generated text must follow: compiled once, then one matcher per row that
says which tokens may come next. Token ids and bytes only; no torch, no HTTP.
"""

from stoker.engine.grammar.compiler import GrammarCompiler
from stoker.engine.grammar.masks import MaskMaker
from stoker.engine.grammar.matcher import Mask, RowMatcher
from stoker.engine.grammar.vocabulary import Vocabulary

__all__ = ["GrammarCompiler", "Mask", "MaskMaker", "RowMatcher", "Vocabulary"]
