"""Prompts of programmers: edits of given code, code to be written and then edited, questions for a database.

Drawn before any round; see `prompts`.
"""

from __future__ import annotations

from sgl_spec.heads.body import Body, asks
from sgl_spec.heads.code_pieces import PIECES
from sgl_spec.heads.draw import Draw
from sgl_spec.heads.word_lists import LISTS

CHANGES = (
    "Rename the function `{f}` to `{g}`.",
    "Rename the function `{f}` to `{g}` and add a docstring to it.",
    "Rename `{a}` to `{d}` everywhere.",
    "Add a docstring.",
    "Add type hints.",
    "Add a comment to every line.",
    "Add a check for empty input.",
    "Change {n} to {m}.",
    "Print the result before it is returned.",
    "Fix the bug if there is one.",
    "Add a parameter `{d}` with the default value {m}.",
    "Make the code shorter.",
    "Write the code again with better names.",
    "Add an example of how to call it.",
    "Add error handling.",
)
EDIT_FRAMES = (
    "```{lang}\n{code}\n```\nWrite this code again with one change. {change}",
    "{change} Change nothing else. Answer with the whole code.\n\n```{lang}\n{code}\n```",
    "{change}\n\n{code}",
    "Here is my code:\n\n```{lang}\n{code}\n```\n\n{change} Show the whole code.",
    "Edit the code as told and repeat everything else as it is.\nTold: {change}\n```{lang}\n{code}\n```",
)
CODE_TASKS = (
    "Write a Python function `{f}` that can {verb} {noun}.",
    "Write a Python function called {f} which takes a list of {noun} and returns the {verb}ed list.",
    "Write a Python class for a {place} with methods to {verb} and {verb2} {noun}.",
    "Write a JavaScript function that will {verb} {noun}.",
    "Complete this function.\n\n```python\ndef {f}({noun}):\n",
    "Write a unit test for a function {f}({noun}).",
    "How do I {verb} {noun} in Python? Show an example.",
    "Explain what this code does.\n\n```python\n{code}\n```",
    "What is the output of this code, and why?\n\n```python\n{code}\n```",
    "Find the bug.\n\n```python\n{code}\n```",
    "Write a Python program that reads a file of {noun} and prints the {verb}ed {noun2}.",
)


class _Names:
    """Names for one piece of code; {f} and {g} are functions, {C} a class."""

    def __init__(self, draw: Draw) -> None:
        verbs, nouns = draw.several(LISTS["verb"], 2), draw.several(LISTS["noun"], 4)
        self.values = {
            "f": f"{verbs[0]}_{nouns[0]}", "g": f"{verbs[-1]}_{nouns[1]}", "C": nouns[0].title().rstrip("s"),
            "a": nouns[0], "b": nouns[1].rstrip("s"), "c": nouns[2].rstrip("s"), "d": nouns[3],
            "n": str(draw.number(2, 9)), "m": str(draw.number(10, 99)),
        }  # fmt: skip


def edit(draw: Draw) -> Body:
    """Code in the prompt, to be written again with a change."""
    names = _Names(draw).values
    if draw.chance(0.2):
        task = draw.fill(f"Write a Python function `{names['f']}` that can {{verb}} {{noun}}.")
        return asks(task, later=(draw.form(CHANGES).format(**names) + " Answer with the whole code.",))
    pieces = draw.several(PIECES, 2 if draw.chance(0.25) else 1)
    code = "\n\n\n".join(piece.format(**names) for piece in pieces)
    change = draw.form(CHANGES).format(**names)
    return asks(draw.form(EDIT_FRAMES).format(code=code, change=change, lang=draw.form(("python", "python", ""))))


def code(draw: Draw) -> Body:
    """Code to be written, explained or tested."""
    names = _Names(draw).values
    piece = draw.pick(PIECES).format(**names)
    task = draw.form(CODE_TASKS).replace("{f}", names["f"])
    return asks(draw.fill(task.replace("{code}", "\2")).replace("\2", piece))


TABLES = (
    "books (id, title, author, year, pages)", "readers (id, name, city, joined)", "loans (book_id, reader_id, days)",
    "orders (id, customer_id, product, quantity, price)", "customers (id, name, country, since)",
    "employees (id, name, job, salary, department_id)", "departments (id, name, floor)",
    "flights (id, from_city, to_city, hours)", "passengers (id, name, age, flight_id)",
    "films (id, title, year, length)",
    "actors (id, name, born)", "roles (film_id, actor_id)", "rooms (number, floor, beds, price)",
    "guests (id, name, room_number, nights)", "plants (id, name, height, colour)", "matches (id, home, away, goals)",
)  # fmt: skip
TABLE_QUESTIONS = (
    "How many {noun} are there?", "Who lives in {city}?", "Which of them is the oldest?", "What is the average price?",
    "List the names in alphabetical order.", "How many were there in {year}?", "Which costs more than {money}?",
    "Delete everything from before {year}.", "Insert a row for {name} {surname}.", "Who has more than {few} entries?",
    "What is the total per {noun}?", "Show the {few} largest.", "Change the city of {name} to {city}.",
    "Which names begin with the letter A?", "Join the tables and show every name with its {noun}.",
)  # fmt: skip


def sql(draw: Draw) -> Body:
    """A question for a database: as a chat, or as a text with examples that the model goes on with."""
    tables = "\n".join(draw.several(TABLES, draw.number(1, 3)))
    question = draw.fill(draw.form(TABLE_QUESTIONS))
    if draw.chance(0.5):
        return asks(f"These tables exist:\n{tables}\n\nWrite an SQL query. {question}")
    city, name, year = draw.fill("{city}"), draw.fill("{name}"), draw.fill("{year}")
    shown = (
        f"Question: Who lives in {city}?\nSQL: SELECT name FROM readers WHERE city = '{city}';\nResult: {name}\n"
        f"Answer: {name} lives in {city}.\n\n"
        f"Question: Who joined in {year}?\nSQL: SELECT name FROM readers WHERE joined = {year};\nResult: {name}\n"
        f"Answer: {name} joined in {year}.\n\n"
    )
    return Body(text=f"The database has these tables:\n{tables}\n\n{shown}Question: {question}\nSQL:", stop=("\n\n",))
