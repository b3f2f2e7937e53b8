"""Drafts from a predicted output: where in it the output stands, and where it may come back after leaving it."""
