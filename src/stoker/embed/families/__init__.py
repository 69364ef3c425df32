"""One file per encoder architecture. Each declares MODEL_TYPES (of config.json) and
`build(checkpoint, dtype, device)`; those with cross-encoders also `read_head`.
"""
