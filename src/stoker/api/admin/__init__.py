"""Routes for the operator: what the server keeps, and what to do with it."""
