"""GET /v1, /v1/models and /v1/models/<id>: what is served and what else is on this machine."""
