"""Texts to vectors, and pairs of texts to relevance: encoders, pooling, batching, rerankers.

Never generates. The API and the command line come in through `service.py`.
"""
