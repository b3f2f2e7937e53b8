"""Trains EAGLE-3 heads for a target model and writes them in SGLang's checkpoint format.

Stands outside any round: a head made here drafts in later rounds, loaded by SGLang itself.

    prompts -> generate (a server answers) -> sample_folder -> train (target + model + unroll) -> export -> report

Everything up to `train` is free of torch.
"""
