"""Tokenizers small enough to try every token of, of the kinds models have."""

from __future__ import annotations

import json

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

SENTENCES = [
    '{"name": "calculate_area", "arguments": {"base": 10, "height": 5.25, "unit": null}}',
    json.dumps({"house": "Gryffindor", "wand": {"wood": "holly", "length": 11.5}, "alive": True}, indent=2),
    json.dumps({"größe": ["klein", "mittel"], "名前": "太郎", "parent": None}, ensure_ascii=False),
    "Today is Monday, the 3rd of June. Tomorrow is Tuesday, the 4th. The house is größer als das Haus.",
    "<function=get_weather>{'city': 'Paris'}</function> I will call the function to get the weather in Paris.",
]
SPECIAL = ("<|end|>", "<|start|>")


def byte_level(size: int = 420) -> PreTrainedTokenizerFast:
    """As most of today's models: byte-level BPE. Token 0 ends a text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=list(SPECIAL), initial_alphabet=alphabet)
    tokenizer.train_from_iterator(SENTENCES * 5, trainer)
    tokenizer.add_tokens([AddedToken("<tool_call>", special=False, normalized=False)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=SPECIAL[0])


def sentencepiece_like() -> PreTrainedTokenizerFast:
    """As Llama 2 and its kin: a space before the first word, bytes to fall back to. Token 1 ends a text."""
    pieces = ["<unk>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *map(chr, range(33, 127))]
    merges = [("▁", "n"), ("▁n", "a"), ("▁na", "me"), ("m", "e"), ("n", "a"), ("na", "me"), ('"', ":"), ("▁", '"')]
    merges = [merges[3], *merges[:3], *merges[4:]]
    pieces += ["".join(pair) for pair in merges]
    vocabulary = {piece: token for token, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token="</s>")


def few_bytes() -> PreTrainedTokenizerFast:
    """A byte-level tokenizer that lacks most bytes as tokens of their own."""
    whole = json.loads(byte_level().backend_tokenizer.to_str())
    known = whole["model"]["vocab"]
    kept = [piece for piece in known if len(piece) > 1 or piece.isascii()]
    tokenizer = Tokenizer(models.WordLevel({piece: token for token, piece in enumerate(kept)}, unk_token=SPECIAL[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=SPECIAL[0])
