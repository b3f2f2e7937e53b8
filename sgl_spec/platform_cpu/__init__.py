"""Lets the stock SGLang CPU engine run on any x86-64 or arm64 CPU, without Intel AMX and without the `sgl_kernel`
CPU build.

Where it stands in a round: below everything; it computes the forward and knows nothing of how tokens were guessed.

    activate          whether the platform is wanted here, and what it then installs
    kernel_module     the `sgl_kernel` module and torch ops that SGLang's CPU branches import
    attention         extend, decode and tree attention as torch ops; attention_kernel has the arithmetic
    backend           the attention backend under the name SGLang picks without AMX
    cache_ops         slots: reading, assigning and moving them
    tree_ops          trees: building, linking and walking them
    pointwise_ops     rotary embedding and the sampling hash
    linear            linear layers whose rows do not depend on how many rows there are
    activation        the same for activations
    reference         a slow twin of every op above, for the tests; reference_slots has those of slots and trees
"""
