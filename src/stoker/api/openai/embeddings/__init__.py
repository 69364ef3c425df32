"""POST /v1/embeddings: texts or token ids in, vectors out."""
