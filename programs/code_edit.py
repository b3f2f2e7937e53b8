"""Code edit: the model answers a whole function again with one change in it.

What speculation profits from: nearly all of the answer is a copy of the code in the prompt; only the change is new.
"""

import sglang as sgl

GREET = """def greet(name, language):
    if language == "German":
        return "Guten Tag, " + name
    if language == "French":
        return "Bonjour, " + name
    if language == "Spanish":
        return "Buenos dias, " + name
    return "Hello, " + name
"""
SETTINGS = """settings = {
    "host": "localhost",
    "port": 8080,
    "timeout": 30,
    "retries": 3,
    "log_file": "server.log",
    "debug": False,
}
"""
REPORT = """def report(name, points):
    print("Score")
    print("-----")
    print("Player:", name)
    print("Points:", points)
    print("Thank you for playing.")
"""


@sgl.function
def code_edit(s, code, change):
    s += sgl.user(f"```python\n{code}```\nWrite this code again with one change. {change}")
    with s.assistant():
        s += "```python\n" + sgl.gen("edited", max_tokens=128, temperature=0, stop="```") + "```"


PROGRAM = code_edit


def inputs():
    edits = [
        (GREET, "Rename the function greet to welcome."),
        (SETTINGS, "Change the port to 9000."),
        (REPORT, "Rename the function report to show_result."),
        (SETTINGS, "Set debug to True."),
        (GREET, 'Let language be "German" by default.'),
        (SETTINGS, 'Change the host to "example.org".'),
    ]
    return [{"code": code, "change": change} for code, change in edits]


if __name__ == "__main__":
    from sgl_spec.frontend.program_main import run_program_file

    raise SystemExit(run_program_file(__file__))
