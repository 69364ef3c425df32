"""The server about itself: /health, /stats, /fit, /metrics."""
