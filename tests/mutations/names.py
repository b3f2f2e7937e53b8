"""Tests and source files that the mutations name again and again."""

from __future__ import annotations

CONTRACT = "tests/contract/"
SERVER = "sgl_spec/server/"

NODE_PENALTIES = f"{CONTRACT}test_penalties.py::test_every_node_has_the_bits_of_decoding_alone"
NODE_LOGITS = f"{CONTRACT}test_node_logits.py::test_every_node_has_the_bits_of_decoding_alone"
ORACLE = f"{CONTRACT}test_server_sampling.py::test_tokens_equal_the_oracles"
KEPT_TOKENS = f"{CONTRACT}test_server_sampling.py::test_kept_tokens_equal_the_oracles"
BOTH_WAYS = f"{CONTRACT}test_node_targets.py::test_both_ways_choose_the_same_tokens"
RUN_END = f"{CONTRACT}test_run_end.py::test_a_request_ends_as_if_its_tokens_had_come_one_by_one"


def in_rounds(case: str) -> str:
    """The test of whole rounds of the worker, for one request."""
    return f"{CONTRACT}test_parameters_in_rounds.py::test_a_parameter_in_rounds[{case}]"
