"""POST /v1/rerank: a query and documents in, their order by relevance out (Cohere's and Jina's shape)."""
