"""POST /v1/chat/completions: parse.py reads and checks, reply.py and stream.py write."""
