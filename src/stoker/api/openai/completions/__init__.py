"""POST /v1/completions: text continued, no chat template."""
