"""Drafts from the grammar an output is held to: its cursor, the search for texts, their spelling in tokens."""
