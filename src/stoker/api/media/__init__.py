"""Media of a request: parts checked, data URLs decoded, remote ones fetched under a strict policy."""
