"""Tests that need a real simulator; each is skipped where its host is missing."""
