"""Speech to text over HTTP: one-shot transcription, streaming sessions, unloading."""
