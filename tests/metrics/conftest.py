"""Hypothesis: the same examples on every machine, and no deadline, as machines are shared."""

from hypothesis import settings

settings.register_profile("strobe", deadline=None, derandomize=True)
settings.load_profile("strobe")
