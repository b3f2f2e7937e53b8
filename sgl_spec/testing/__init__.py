"""Stand-ins for testing drafters: a target model without weights, and drafters that misbehave.

    fake_target       a deterministic target over a small vocabulary
    generation        plain decoding and decoding in rounds, over that target
    hostile_drafters  drafters that must not change a single token
    fake_grammar      grammars over bytes, whose masks can be looked at
    fake_codec        a tokenizer of single bytes and some words
    small_tokenizers  real tokenizers of the kinds models have, of a few hundred tokens
    chi_square        whether samples follow a distribution
    local_http        a server of JSON on this machine, to test clients with

Shipped with the package so that whoever writes a drafter can test it: see `generation.decode_in_rounds`.
"""
