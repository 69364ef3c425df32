"""Whisper checkpoints in the formats they come in; each gives weights under Hugging Face names."""
