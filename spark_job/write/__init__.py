"""Rows and deletes as files of the mirror."""
