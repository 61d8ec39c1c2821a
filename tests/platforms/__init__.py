"""Platforms that launch jobs, as fakes that keep the promises of the real ones: one run a token, states, refusals."""
