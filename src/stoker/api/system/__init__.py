"""The server about itself: /health, /stats, /metrics."""
