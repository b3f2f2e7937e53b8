"""Everything that guesses tokens, and nothing that runs a model: standard library, numpy, numba.

The modules here, in the order of a round (draft -> verify -> accept):

    hint         what a client says about a request, on the wire; read once, before its first round
    planner      owns the drafters and the counts of all running requests; the only thing a server calls
    drafter      what a drafter is: start, propose, observe, finish, stop; and a refiner of the whole tree
    budget       how many nodes a round may have, and the joining of all drafts into one tree
    tree         DraftTree: the one place trees are made, merged, pruned and printed (tree_merge, tree_kernel: the
                 same for a whole round at once, compiled)
    flat_tree    DraftTree -> the arrays a verifier reads; there the target forward takes over
    acceptance   the target's logits at the nodes -> the tokens to commit (the slow, exact rule)
    stats        what was drafted, reached, accepted and abstained, by origin
    text_codec   between text and tokens, for drafters that know what the text will be

and the drafters, a folder each:

    lookup       the request's own text (origin "lookup")
    memory       past outputs of the slot and program ("memory")
    template     what such outputs, examples or a declared shape have in common ("template.*", "memory.template")
    predict      a predicted output ("predict")
    grammar      a refiner: what the request's grammar forbids and forces ("grammar.*")

Import the modules themselves; the packages export nothing.
"""
