"""Tool calling: the model writes a call as JSON, the tool runs, its result goes back in, and the model answers.

What speculation profits from: the schema is built from the tools' signatures, so it forces every key, and the first
letters of a tool's name settle the rest of it; the values are words of the question; and the answer repeats both.
"""

import inspect
import json
from pathlib import Path
from typing import Literal

import sglang as sgl

EXAMPLES = (Path(__file__).parent / "tool_calls_examples.txt").read_text(encoding="utf-8")
METRES = {"metres": 1.0, "kilometres": 1000.0, "feet": 0.3048, "miles": 1609.344}
Unit = Literal["metres", "kilometres", "feet", "miles"]


def convert_length(value: float, from_unit: Unit, to_unit: Unit):
    return f"{value * METRES[from_unit] / METRES[to_unit]:.6g} {to_unit}"


def split_bill(total: float, people: int):
    return f"{total / people:.2f} each"


def count_letter(word: str, letter: str):
    return f"{word.lower().count(letter.lower())} times"


TOOLS = {tool.__name__: tool for tool in (convert_length, split_bill, count_letter)}
VALUES = {float: {"type": "number"}, int: {"type": "integer"}, str: {"type": "string"}, Unit: {"enum": list(METRES)}}


def closed(properties):
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def call_schema(name, tool):
    parameters = inspect.signature(tool).parameters.values()
    arguments = closed({parameter.name: VALUES[parameter.annotation] for parameter in parameters})
    return closed({"tool": {"enum": [name]}, "arguments": arguments})


SCHEMA = json.dumps({"anyOf": [call_schema(name, tool) for name, tool in TOOLS.items()]})


def run_tool(text):
    """What the tool says. A call that was cut off, or that the tool cannot do, gets an answer too."""
    try:
        call = json.loads(text)
        return TOOLS[call["tool"]](**call["arguments"])
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        return f"error: {error}"


@sgl.function
def tool_calls(s, question):
    s += EXAMPLES + f"Question: {question}\nCall: " + sgl.gen("call", max_tokens=64, temperature=0, json_schema=SCHEMA)
    s += f"\nResult: {run_tool(s['call'])}\nAnswer:" + sgl.gen("answer", max_tokens=48, temperature=0, stop="\n")
    return s["answer"].strip()


PROGRAM = tool_calls


def inputs():
    lengths = ["Convert 3 miles to metres.", "Convert 42 kilometres to miles."]
    bills = ["Split a bill of 84 euros among 6 people.", "Split a bill of 96.60 euros among 3 people."]
    letters = ["Count the letter s in the word mississippi.", "Count the letter a in the word banana."]
    return [{"question": question} for question in lengths + bills + letters]


if __name__ == "__main__":
    from sgl_spec.frontend.program_main import run_program_file

    raise SystemExit(run_program_file(__file__))
