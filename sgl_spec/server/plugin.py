"""Entry point of the group `sglang.srt.plugins`: runs once in every SGLang process, before the server's arguments
are resolved.

Registers the algorithm and the sampler; on a mismatch with the installed SGLang the name is registered all the
same and refuses with the reason, so that a user reads what is wrong instead of "unknown algorithm".
"""

from __future__ import annotations


def load() -> None:
    from sgl_spec.server import algorithm, sglang_contract

    broken = [row for row in sglang_contract.check_contract() if not row.ok]
    if broken:
        algorithm.refusal = sglang_contract.refusal(broken)
    algorithm.register()
    if not broken:
        from sglang.srt.layers.sampler import register_sampler_backend

        from sgl_spec.server.sampler import BACKEND, SeededSampler

        register_sampler_backend(BACKEND, SeededSampler)
