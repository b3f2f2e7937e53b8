"""A draft head (EAGLE, EAGLE-3) or a small draft model beside the target: SGLang's own draft machinery, made to grow
candidates for our trees.

Where it stands in a round: between the drafters and the verify forward (candidates), and after acceptance (the target's
hidden states of accepted tokens are kept until the head is next asked).
"""
