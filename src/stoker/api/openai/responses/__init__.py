"""The Responses protocol: create, read, list input, cancel, delete."""
