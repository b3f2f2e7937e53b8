"""Drafts from the request's own text: the suffix automaton, its search, the drafter. Memory uses the same search."""
