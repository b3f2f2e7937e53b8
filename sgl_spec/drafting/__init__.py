"""Everything that guesses tokens, and nothing that runs a model: standard library and numpy only.

The modules in the order of a round (draft -> verify -> accept):

    hint            what a client says about a request, on the wire; read once, before its first round
    planner         owns the drafters and the counts of all running requests; the only thing a server calls
    drafter         what a drafter is: start, propose, observe, stop
    suffix_index    where the text has ended like this before
    lookup_drafter  drafts what followed there (origin "lookup")
    budget          how many nodes a round may have, and the joining of all drafts into one tree
    tree            DraftTree: the one place trees are made, merged, pruned and printed
    flat_tree       DraftTree -> the arrays a verifier reads; there the target forward takes over
    acceptance      the target's logits at the nodes -> the tokens to commit (the slow, exact rule)
    stats           what was drafted, accepted and abstained, by origin

Import the modules themselves; this file exports nothing.
"""
