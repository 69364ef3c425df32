"""The parts of `stoker dictate`: microphone, what begins and ends a take, where takes and texts go."""
