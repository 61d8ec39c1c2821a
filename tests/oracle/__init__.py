"""Adversarial changelogs, and the judge of their mirrors."""

from tests.oracle.schedules import Schedule
from tests.oracle.world import World

__all__ = ["Schedule", "World"]
