"""The choice of the target's token: temperature, filters, noise, seeds."""

from __future__ import annotations

from mutation import Mutation
from names import BOTH_WAYS, CONTRACT, KEPT_TOKENS, ORACLE, SERVER, in_rounds

SEEDS, SAMPLER = f"{SERVER}seeds.py", f"{SERVER}sampler.py"
FIRST_TOKEN = f"{CONTRACT}test_sampler.py::test_it_chooses_the_targets_tokens_and_gives_their_logprobs"
SAMPLING, NOISE = f"{SERVER}sampling.py", f"{SERVER}noise.py"

MUTATIONS = (
    Mutation(
        "temperature-dropped", ("temperature",), SAMPLING,
        "scaled = logits.float() / params.temperature[:, None]", "scaled = logits.float()",
        (ORACLE, KEPT_TOKENS, in_rounds("temperature")),
    ),
    Mutation(
        "greedy-is-sampled", ("temperature",), SAMPLING,
        "rows = (params.top_k > 1).nonzero().flatten()", "rows = (params.top_k > 0).nonzero().flatten()",
        (BOTH_WAYS,),
    ),
    Mutation(
        "top-k-dropped", ("top_k",), SAMPLING,
        "return (rank >= params.top_k) | (before", "return (before",
        (ORACLE, in_rounds("top_k")),
    ),
    Mutation(
        "top-k-dropped-on-a-device", ("top_k",), SAMPLING,
        "kept = (ranks < params.top_k[:, None]) & (before", "kept = (before",
        (KEPT_TOKENS, BOTH_WAYS),
    ),
    Mutation(
        "top-p-dropped", ("top_p",), SAMPLING,
        "return (rank >= params.top_k) | (before > _most_mass(params.top_p))", "return rank >= params.top_k",
        (ORACLE, in_rounds("top_p")),
    ),
    Mutation(
        "top-p-dropped-on-a-device", ("top_p",), SAMPLING,
        " & (before <= _most_mass(params.top_p)[:, None])", "",
        (KEPT_TOKENS, BOTH_WAYS),
    ),
    Mutation(
        "min-p-dropped", ("min_p",), SAMPLING,
        "return logprobs.masked_fill_(logprobs < floor[:, None], -torch.inf)", "return logprobs",
        (ORACLE, KEPT_TOKENS, in_rounds("min_p")),
    ),
    Mutation(
        "seed-ignored-by-the-noise", ("sampling_seed",), NOISE,
        "_mixed(_mixed(_mixed(u32(0), u32(seed & 0xFFFFFFFF)), u32((seed >> 32) & 0xFFFFFFFF)), u32(position))",
        "_mixed(_mixed(_mixed(u32(0), u32(0)), u32(0)), u32(position))",
        (ORACLE, in_rounds("sampling_seed")),
    ),
    Mutation(
        "half-of-the-seed-ignored", ("sampling_seed",), NOISE,
        "u32((seed >> 32) & 0xFFFFFFFF)", "u32(0)",
        (ORACLE, in_rounds("sampling_seed")),
    ),
    Mutation(
        "position-ignored-by-the-noise", ("sampling_seed",), NOISE,
        "u32(position))", "u32(0))",
        (ORACLE, in_rounds("sampling_seed")),
    ),
    Mutation(
        "one-noise-for-all-tokens", ("sampling_seed",), NOISE,
        "_mixed(state, u32(token))", "_mixed(state, u32(0))",
        (ORACLE, in_rounds("sampling_seed")),
    ),
    Mutation(
        "seed-ignored-on-a-device", ("sampling_seed",), NOISE,
        "low, high = seed.to(torch.int32), (seed >> 32).to(torch.int32)",
        "low, high = (seed * 0).to(torch.int32), (seed * 0).to(torch.int32)",
        (BOTH_WAYS,),
    ),
    Mutation(
        "position-off-by-one-in-a-round", ("sampling_seed",), f"{SERVER}worker.py",
        "row_params(batch.sampling_info), verify.positions, trees)",
        "row_params(batch.sampling_info), verify.positions + 1, trees)",
        (in_rounds("sampling_seed"), in_rounds("temperature")),
    ),
    Mutation(
        "top-p-alone-unnoticed", ("top_p",), SAMPLER,
        "ranked=info.need_top_k_sampling or info.need_top_p_sampling", "ranked=info.need_top_k_sampling",
        (f"{CONTRACT}test_parameters_in_rounds.py::test_a_parameter_alone_in_its_batch[top_p]",),
    ),
    Mutation(
        "first-token-by-sglangs-sampler", ("temperature", "sampling_seed"), SAMPLER,
        "if sampling_info.sampling_seed is not None and not sampling_info.is_all_greedy:", "if False:",
        (FIRST_TOKEN,),
    ),
    Mutation(
        "named-seed-ignored", ("sampling_seed",), SEEDS,
        "if params.sampling_seed is not None:", "if False:",
        (f"{CONTRACT}test_seeds.py::test_the_seed_of_a_request", in_rounds("sampling_seed")),
    ),
    Mutation(
        "batches-carry-no-seeds", ("sampling_seed",), SEEDS,
        "    if _ours():\n        seeds = ", "    if False:\n        seeds = ",
        (f"{CONTRACT}test_seeds.py::test_every_batch_carries_its_requests_seeds_while_requests_join_and_leave",),
    ),
    Mutation(
        "samples-share-a-seed", ("n",), SEEDS,
        "for _ in range(sample):", "for _ in range(0):",
        (f"{CONTRACT}test_seeds.py::test_samples_have_seeds_of_their_own_that_fit",),
    ),
    Mutation(
        "samples-get-no-seed-of-their-own", ("n",), SEEDS,
        "tokenized.sampling_params.n > 1 and _ours()", "tokenized.sampling_params.n > 1 and False",
        (f"{CONTRACT}test_seeds.py::test_samples_of_one_request_get_a_seed_each",),
    ),
)  # fmt: skip
