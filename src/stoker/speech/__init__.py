"""Speech to text: audio in, Whisper, voice activity, segments and subtitles."""
