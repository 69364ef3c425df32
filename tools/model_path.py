"""Prints the path of a downloaded model: `python tools/model_path.py smollm2`."""

from __future__ import annotations

import sys

from stoker.errors import ModelError
from stoker.library import find_model

try:
    print(find_model(sys.argv[1]).path)
except ModelError as error:
    sys.exit(error.message)
