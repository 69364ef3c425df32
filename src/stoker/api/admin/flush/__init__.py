"""POST /admin/cache/flush."""
