"""Drafts of a model: what a draft head (or a small draft model) grew, as chains, and when it is worth asking."""
