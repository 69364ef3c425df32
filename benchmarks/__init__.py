"""Measurements against any OpenAI-compatible server. Not part of the installed package.

Standard library only, except for what starts servers (psutil) and exactness.py (torch, transformers).
"""
