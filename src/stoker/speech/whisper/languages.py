"""The languages Whisper was trained on, in the order of their tokens, and what people call them."""

from __future__ import annotations

# code: English names, the first one the usual
_NAMES = {
    "en": "english", "zh": "chinese mandarin", "de": "german", "es": "spanish castilian", "ru": "russian",
    "ko": "korean", "fr": "french", "ja": "japanese", "pt": "portuguese", "tr": "turkish", "pl": "polish",
    "ca": "catalan valencian", "nl": "dutch flemish", "ar": "arabic", "sv": "swedish", "it": "italian",
    "id": "indonesian", "hi": "hindi", "fi": "finnish", "vi": "vietnamese", "he": "hebrew",
    "uk": "ukrainian", "el": "greek", "ms": "malay", "cs": "czech", "ro": "romanian moldavian moldovan",
    "da": "danish", "hu": "hungarian", "ta": "tamil", "no": "norwegian", "th": "thai", "ur": "urdu",
    "hr": "croatian", "bg": "bulgarian", "lt": "lithuanian", "la": "latin", "mi": "maori",
    "ml": "malayalam", "cy": "welsh", "sk": "slovak", "te": "telugu", "fa": "persian farsi",
    "lv": "latvian", "bn": "bengali", "sr": "serbian", "az": "azerbaijani", "sl": "slovenian",
    "kn": "kannada", "et": "estonian", "mk": "macedonian", "br": "breton", "eu": "basque",
    "is": "icelandic", "hy": "armenian", "ne": "nepali", "mn": "mongolian", "bs": "bosnian",
    "kk": "kazakh", "sq": "albanian", "sw": "swahili", "gl": "galician", "mr": "marathi",
    "pa": "punjabi panjabi", "si": "sinhala sinhalese", "km": "khmer", "sn": "shona", "yo": "yoruba",
    "so": "somali", "af": "afrikaans", "oc": "occitan", "ka": "georgian", "be": "belarusian",
    "tg": "tajik", "sd": "sindhi", "gu": "gujarati", "am": "amharic", "yi": "yiddish", "lo": "lao",
    "uz": "uzbek", "fo": "faroese", "ht": "haitian+creole haitian", "ps": "pashto pushto",
    "tk": "turkmen", "nn": "nynorsk", "mt": "maltese", "sa": "sanskrit",
    "lb": "luxembourgish letzeburgesch", "my": "myanmar burmese", "bo": "tibetan", "tl": "tagalog",
    "mg": "malagasy", "as": "assamese", "tt": "tatar", "haw": "hawaiian", "ln": "lingala",
    "ha": "hausa", "ba": "bashkir", "jw": "javanese", "su": "sundanese", "yue": "cantonese",
}  # fmt: skip

CODES: tuple[str, ...] = tuple(_NAMES)
# Whisper writes Javanese with a code of its own; `iw` and `in` are older codes still in use.
_OTHER_CODES = {"jv": "jw", "iw": "he", "in": "id", "fil": "tl", "nb": "no", "cmn": "zh"}
_BY_NAME = {
    name.replace("+", " "): code for code, names in _NAMES.items() for name in names.split()
} | _OTHER_CODES

# Written without spaces between words.
UNSPACED = frozenset({"zh", "ja", "th", "lo", "my", "yue"})


def find_code(language: str) -> str | None:
    """The code that `language` means: a code, with a region or not (`en-US`), or an English name, in
    any case. None when there is no such language."""
    wanted = language.strip().casefold()
    if wanted in _NAMES:
        return wanted
    if wanted in _BY_NAME:
        return _BY_NAME[wanted]
    primary = wanted.replace("_", "-").partition("-")[0]
    return primary if primary in _NAMES else _OTHER_CODES.get(primary)
