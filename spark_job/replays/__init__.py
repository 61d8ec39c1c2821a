"""Merging again what was merged: a range, or the whole mirror out of sight."""
