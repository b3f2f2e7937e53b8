"""A custom logit processor as a client sends it. Run as a program it prints itself in SGLang's wire form: a class of
`__main__` is pickled whole, a class of a module only by its name, which the server could not import."""

from __future__ import annotations

from sglang.srt.sampling.custom_logit_processor import CustomLogitProcessor


class BanUntilTenth(CustomLogitProcessor):
    """Reads the output so far, and counts its calls: it must be called once a token, whatever its neighbours do."""

    def __call__(self, logits, custom_param_list):
        for row, params in zip(logits, custom_param_list, strict=True):
            params["calls"] = params.get("calls", 0) + 1
            if len(params["__req__"].output_ids) < 10:
                row[params["banned"]] = -1e9
            row[params["calls"] % 100] += 1.0
        return logits


if __name__ == "__main__":
    print(BanUntilTenth.to_str())
