"""Media of a request: data URLs decoded, remote ones fetched under a strict policy."""

from stoker.api.media.data_url import decode_data_url
from stoker.api.media.fetch import MediaFetcher

__all__ = ["MediaFetcher", "decode_data_url"]
