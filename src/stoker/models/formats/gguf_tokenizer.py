"""The tokenizer a GGUF file describes, built with the `tokenizers` library.

Two kinds: byte-level BPE with a list of merges ("gpt2"), and SentencePiece BPE with a score
per token ("llama"), whose merges are recovered from the scores. No tensors here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from stoker.errors import CorruptModel, UnsupportedModel
from stoker.models.formats.gguf_pretokenizers import PRE_TOKENIZERS, PreTokenizer

# tokenizer.ggml.token_type
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = 1, 2, 3, 4, 5, 6

_SPACE = "▁"  # how SentencePiece writes a space
_SPECIAL_TOKENS = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
_END_KEYS = ("eos", "eot", "eom")
# Chat models end a turn with one of these; files often declare only one of several, or type
# them as ordinary text.
_END_TEXTS = frozenset(
    {
        "<|eot_id|>",
        "<|eom_id|>",
        "<|im_end|>",
        "<|end|>",
        "<|endoftext|>",
        "<|end_of_text|>",
        "<end_of_turn>",
    }
)


def build_tokenizer(metadata: Mapping[str, Any], path: str) -> tuple[Tokenizer, dict[str, Any]]:
    """The tokenizer, and a dict in the style of tokenizer_config.json.

    Raises UnsupportedModel for a kind we cannot build, CorruptModel for lists that do not
    belong together."""
    vocabulary = _Vocabulary(metadata, path)
    kind = metadata.get("tokenizer.ggml.model")
    if kind == "gpt2":
        tokenizer, add_bos = _byte_level(vocabulary)
    elif kind == "llama":
        tokenizer, add_bos = _sentencepiece(vocabulary), True
    else:
        raise UnsupportedModel(
            f"{path}: tokenizer of kind {kind!r} is not supported (byte-level BPE and SentencePiece are)"
        )
    _add_tokens(tokenizer, vocabulary)
    config = _config(vocabulary, kind, add_bos)
    _add_bos_and_eos(tokenizer, vocabulary, config)
    return tokenizer, config


def end_of_generation_ids(metadata: Mapping[str, Any]) -> list[int]:
    """Every token that ends a reply, the declared one first."""
    declared = [metadata.get(f"tokenizer.ggml.{name}_token_id") for name in _END_KEYS]
    found = [token for token in declared if isinstance(token, int)]
    tokens = metadata.get("tokenizer.ggml.tokens")
    if isinstance(tokens, list):
        found += [index for index, token in enumerate(tokens) if token in _END_TEXTS]
    return list(dict.fromkeys(found))


class _Vocabulary:
    """The token lists of the metadata, checked against each other."""

    def __init__(self, metadata: Mapping[str, Any], path: str) -> None:
        self.metadata = metadata
        self.path = path
        tokens = metadata.get("tokenizer.ggml.tokens")
        if not isinstance(tokens, list) or not tokens or not isinstance(tokens[0], str):
            raise CorruptModel(f"{path} has no vocabulary (tokenizer.ggml.tokens)")
        self.tokens: list[str] = [token or f"[EMPTY_{index}]" for index, token in enumerate(tokens)]
        self.ids = {token: index for index, token in enumerate(self.tokens)}
        self.types: list[int] = self._numbers("token_type") or [_NORMAL] * len(tokens)
        self.scores: list[float] | None = self._numbers("scores")

    def special(self, name: str) -> str | None:
        index = self.metadata.get(f"tokenizer.ggml.{name}_token_id")
        return self.tokens[index] if isinstance(index, int) and 0 <= index < len(self.tokens) else None

    def merges(self) -> list[tuple[str, str]] | None:
        """The listed merges; None when the file has none."""
        listed = self.metadata.get("tokenizer.ggml.merges")
        if listed is None:
            return None
        pairs = [tuple(merge.split(" ", 1)) for merge in listed]
        ids = self.ids
        known = [
            pair
            for pair in pairs
            if len(pair) == 2 and pair[0] in ids and pair[1] in ids and pair[0] + pair[1] in ids
        ]
        if len(known) < len(pairs):
            raise CorruptModel(
                f"{self.path}: {len(pairs) - len(known)} merges name tokens that the vocabulary lacks"
            )
        return known

    def _numbers(self, name: str) -> list[Any] | None:
        values = self.metadata.get(f"tokenizer.ggml.{name}")
        if values is None:
            return None
        if len(values) < len(self.tokens) or not hasattr(values, "tolist"):
            raise CorruptModel(f"{self.path}: tokenizer.ggml.{name} is shorter than the vocabulary")
        numbers: list[Any] = values.tolist()
        return numbers


def _byte_level(vocabulary: _Vocabulary) -> tuple[Tokenizer, bool]:
    name = vocabulary.metadata.get("tokenizer.ggml.pre") or "default"
    pre = PRE_TOKENIZERS.get(name)
    if pre is None:
        raise UnsupportedModel(f"{vocabulary.path}: pre-tokenizer {name!r} is not supported")
    merges = vocabulary.merges()
    if merges is None:
        raise CorruptModel(f"{vocabulary.path} has a byte-level vocabulary but no merges")
    tokenizer = Tokenizer(models.BPE(vocabulary.ids, merges, ignore_merges=pre.ignore_merges))
    if pre.nfc:
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = _pre_tokenizer(pre)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer, pre.add_bos


def _pre_tokenizer(pre: PreTokenizer) -> pre_tokenizers.PreTokenizer:
    cuts: list[pre_tokenizers.PreTokenizer] = [
        pre_tokenizers.Split(Regex(expression), behavior="isolated") for expression in pre.expressions
    ]
    return pre_tokenizers.Sequence([*cuts, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def _sentencepiece(vocabulary: _Vocabulary) -> Tokenizer:
    merges = vocabulary.merges() or merges_from_scores(
        vocabulary.tokens, vocabulary.types, vocabulary.scores, vocabulary.path
    )
    unknown = vocabulary.special("unknown") or next(
        (token for token, kind in zip(vocabulary.tokens, vocabulary.types, strict=False) if kind == _UNKNOWN),
        None,
    )
    tokenizer = Tokenizer(
        models.BPE(vocabulary.ids, merges, unk_token=unknown, fuse_unk=True, byte_fallback=True)
    )
    replace_spaces = normalizers.Replace(" ", _SPACE)
    restore: list[decoders.Decoder] = [
        decoders.Replace(_SPACE, " "),
        decoders.ByteFallback(),
        decoders.Fuse(),
    ]
    if vocabulary.metadata.get("tokenizer.ggml.add_space_prefix", True):
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(_SPACE), replace_spaces])
        restore.append(decoders.Strip(" ", 1, 0))
    else:
        tokenizer.normalizer = replace_spaces
    tokenizer.decoder = decoders.Sequence(restore)
    return tokenizer


def merges_from_scores(
    tokens: Sequence[str], types: Sequence[int], scores: Sequence[float] | None, path: str
) -> list[tuple[str, str]]:
    """SentencePiece's BPE joins the neighbours whose union has the best score. The same order
    as a list of merges: for tokens from the best score down, every way to cut one in two tokens."""
    if scores is None:
        raise CorruptModel(f"{path} has a SentencePiece vocabulary but no scores")
    mergeable = (_NORMAL, _UNUSED)
    pieces = {token for token, kind in zip(tokens, types, strict=False) if kind in mergeable}
    order = sorted(range(len(tokens)), key=scores.__getitem__, reverse=True)
    merges: list[tuple[str, str]] = []
    for index in order:
        token = tokens[index]
        if token in pieces:
            cuts = range(1, len(token))
            merges += [
                (left, right)
                for cut in cuts
                if (left := token[:cut]) in pieces and (right := token[cut:]) in pieces
            ]
    return merges


def _add_tokens(tokenizer: Tokenizer, vocabulary: _Vocabulary) -> None:
    """Control tokens as special ones, user-defined ones as words that are never cut."""
    special: list[AddedToken] = []
    plain: list[AddedToken] = []
    strip_right = _strips_spaces(vocabulary)
    for token, kind in zip(vocabulary.tokens, vocabulary.types, strict=False):
        if kind == _CONTROL or token in _END_TEXTS:
            special.append(AddedToken(token, normalized=False, special=True, rstrip=token in strip_right))
        elif kind == _USER_DEFINED:
            plain.append(AddedToken(token, normalized=False, special=False))
        elif kind == _UNKNOWN:
            special.append(AddedToken(token, normalized=False, special=True))
    tokenizer.add_special_tokens(special)
    tokenizer.add_tokens(plain)


def _strips_spaces(vocabulary: _Vocabulary) -> frozenset[str]:
    """Phi-3's markers swallow the white space after them; no metadata says so."""
    metadata = vocabulary.metadata
    if metadata.get("general.architecture") != "phi3" or metadata.get("tokenizer.ggml.model") != "llama":
        return frozenset()
    markers = {
        token
        for token, kind in zip(vocabulary.tokens, vocabulary.types, strict=False)
        if kind == _CONTROL and token.startswith("<|")
    }
    return frozenset((markers - {"<|endoftext|>"}) | {"</s>"})


def _config(vocabulary: _Vocabulary, kind: str, add_bos: bool) -> dict[str, Any]:
    metadata = vocabulary.metadata
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "add_bos_token": bool(metadata.get("tokenizer.ggml.add_bos_token", add_bos)),
        "add_eos_token": bool(metadata.get("tokenizer.ggml.add_eos_token", False)),
        "add_prefix_space": kind == "llama" and bool(metadata.get("tokenizer.ggml.add_space_prefix", True)),
        "clean_up_tokenization_spaces": False,
    }
    for ours, theirs in _SPECIAL_TOKENS.items():
        if token := vocabulary.special(theirs):
            config[f"{ours}_token"] = token
    template = metadata.get("tokenizer.chat_template")
    if isinstance(template, str):
        config["chat_template"] = template
    return config


def _add_bos_and_eos(tokenizer: Tokenizer, vocabulary: _Vocabulary, config: Mapping[str, Any]) -> None:
    bos = config.get("bos_token") if config["add_bos_token"] else None
    eos = config.get("eos_token") if config["add_eos_token"] else None
    added = [token for token in (bos, eos) if token]
    if not added:
        return
    sequence = [part for part in (bos, "$A", eos) if part]
    second = [part.replace("$A", "$B") + ":1" for part in sequence]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=sequence,
        pair=[*sequence, *second],
        special_tokens=[(token, vocabulary.ids[token]) for token in dict.fromkeys(added)],
    )
