"""A ReAct agent: the model thinks, calls a tool, reads its answer, and goes on until it finishes.

The tools are real: a lookup in corpus.json and a calculator. The loop is Yao et al., 2022, "ReAct" (arXiv 2210.03629).
"""

import ast
import json
import operator
from pathlib import Path

import sglang as sgl

HERE = Path(__file__).parent
CORPUS = json.loads((HERE / "corpus.json").read_text(encoding="utf-8"))
EXAMPLES = (HERE / "react_examples.txt").read_text(encoding="utf-8")
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
MAX_STEPS = 5


@sgl.function
def react(s, question):
    s += EXAMPLES + f"Question: {question}\n"
    for _ in range(MAX_STEPS):
        s += "Thought:" + sgl.gen("step", max_tokens=64, temperature=0, stop=["\nObservation:", "\nQuestion:"])
        tool, _, argument = s["step"].rpartition("Action:")[2].strip().partition("[")
        argument = argument.partition("]")[0].strip()
        if tool == "Finish":
            return argument
        s += f"\nObservation: {call_tool(tool, argument)}\n"
    return None


def call_tool(tool, argument):
    if tool == "Lookup":
        articles = {title.lower(): article for title, article in CORPUS.items()}
        return articles.get(argument.lower(), f"There is no article {argument}.")
    if tool == "Calculate":
        try:
            return f"{evaluate(ast.parse(argument, mode='eval').body):.10g}"
        except (ArithmeticError, SyntaxError, ValueError):
            return f"{argument} is not a sum I can do."
    return "There is no such tool. Use Lookup[title], Calculate[expression] or Finish[answer]."


def evaluate(node):
    """Numbers and + - * / only: a model's output is never run as code."""
    match node:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.BinOp(left, op, right) if type(op) in OPERATORS:
            return OPERATORS[type(op)](evaluate(left), evaluate(right))
        case ast.UnaryOp(ast.USub(), operand):
            return -evaluate(operand)
    raise ValueError("not arithmetic")


PROGRAM = react


def inputs():
    questions = [
        "How many legs do 12 honeybees have together?",
        "What is the capital of Japan?",
        "How many strings do 15 violins have together?",
        "How long is the Nile?",
        "What is the capital of Iceland?",
    ]
    return [{"question": question} for question in questions]


if __name__ == "__main__":
    from sgl_spec.frontend.program_main import run_program_file

    raise SystemExit(run_program_file(__file__))
