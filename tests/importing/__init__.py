"""Importing: every format, every option, and every way in which a file can be wrong."""
