"""Adversarial changelogs, and the judge of what a mirror makes of them."""

from tests.oracle.schedules import Schedule
from tests.oracle.world import World

__all__ = ["Schedule", "World"]
