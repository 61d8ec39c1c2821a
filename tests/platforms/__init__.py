"""Fakes of the platforms that run jobs: one run per token, run states, and the errors of the real ones."""
