"""The Anthropic protocol: Messages and its token count."""
