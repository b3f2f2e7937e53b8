"""The speculative algorithm SGL_SPEC inside SGLang's server.

plugin            entry point: checks the contract, registers the algorithm and the sampler
sglang_contract   every SGLang name we override, call or read, checked against the installed version (sglang_names)
algorithm         what SGLang is told about SGL_SPEC, and how it changes the server's arguments
worker            one round: draft, verify, accept
request_states    what is known of each running request, between rounds
abstain           which requests must decode singly, and why
verify_input      trees as the tensors the target forward and the attention backend read
sampling          the target's own token at every node
sampler           the same choice for the first token, after a prefill
report            per-request counts in meta_info["sgl_spec"]
"""
