"""Runs llm-comply, the compliance checker, against a server that is up, in the three formats it serves.

    python tools/comply.py http://127.0.0.1:8080

Fails when a check fails that should not. What may fail: image input, as long as the model takes text
only. Some checks want a request without `model` refused: start the server with --require-model. Needs
the `test` extra.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

FORMATS = ("openai-chat", "open-responses", "anthropic")
TEXT_ONLY = {"chat-image-input", "image-input", "anth-image-input"}


def run_checks(base_url: str, format: str) -> list[dict[str, Any]]:
    """The results as llm-comply reports them: id, status, errors, ..."""
    # The model's name decides nothing but which checks apply.
    command = [sys.executable, "-m", "llm_comply.cli", "run", "--json", "--format", format]
    command += ["--base-url", f"{base_url}/v1", "--api-key", "unused", "--model", "local"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        report: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise SystemExit(f"llm-comply said: {done.stdout}{done.stderr}") from None
    results: list[dict[str, Any]] = report["results"]
    return results


def failures(results: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Errors by the id of the check, without those of image input."""
    failed = {result["id"]: result["errors"] for result in results if result["status"] == "failed"}
    return {id: errors for id, errors in failed.items() if id not in TEXT_ONLY}


def main() -> None:
    base_url = sys.argv[1].rstrip("/") if len(sys.argv) > 1 else "http://127.0.0.1:8080"
    wrong = False
    for format in FORMATS:
        results = run_checks(base_url, format)
        passed = sum(result["status"] == "passed" for result in results)
        print(f"{format}: {passed} of {len(results)} passed")
        for id, errors in failures(results).items():
            wrong = True
            print(f"  {id}: {'; '.join(errors)}")
    sys.exit(wrong)


if __name__ == "__main__":
    main()
