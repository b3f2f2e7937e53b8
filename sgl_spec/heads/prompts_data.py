"""Prompts of programs: records out of text, calls of functions, sums in words, agents that use tools.

Drawn before any round; see `prompts`.
"""

from __future__ import annotations

import json
from typing import Any

from sgl_spec.heads.body import Body, Message, asks
from sgl_spec.heads.draw import Draw

PROBLEMS = (
    "{name} has {some} {thing} and buys {few} more. Then {name2} gives away {few2}. How many {thing} are left?",
    "A {place} sells {lots} {thing} on {day} and {many} on {day2}. How many does it sell in total?",
    "{name} earns {money} euros an hour and works {few} hours a day. How much does {name} earn in {few2} days?",
    "There are {many} {thing} in a box. {name} takes {percent} percent of them. How many remain?",
    "{name} is {few} years older than {name2}, who is {age}. How old will {name} be in {few2} years?",
    "A train travels {lots} kilometres in {few} hours. What is its average speed?",
    "{name} bakes {some} trays of muffins with {few} muffins each. If {many} muffins are sold for {few2} "
    "euros each, how much money does {name} make, and how many muffins are left?",
    "{few} friends share {lots} {thing} equally. How many does each get, and how many are left over?",
    "A {product} costs {lots} euros. Its price is reduced by {percent} percent. What is the new price?",
    "{name} reads {some} pages on {day}, twice as many on {day2} and {many} on the weekend. How many pages "
    "does {name} read in all?",
    "A garden is {some} metres long and {few} metres wide. How much fence is needed to go around it? What is its area?",
    "{name} saves {money} euros every week. After how many weeks can {name} buy a {product} for {lots} euros?",
    "At the {place} there are {many} people. {some} leave and then twice as many arrive. How many are there now?",
    "{name} has {few} times as many {thing} as {name2}. Together they have {lots}. How many does each have?",
    "It takes {name} {few} minutes to fold one shirt. How many hours does it take to fold {many} shirts?",
    "A bus has {many} seats. {some} are empty. Half of the passengers get off. How many passengers stay?",
    "{name} runs {few} laps of {lots} metres every {day} and {few2} laps every {day2}. How far does {name} "
    "run in {few} weeks?",
    "A recipe for {few} people needs {some} eggs. How many eggs are needed for {many} people?",
    "{company} has {lots} employees. {percent} percent of them work in {city} and the rest in {city2}. How "
    "many work in {city2}?",
    "{name} buys {few} {thing} for {money} euros each and {few2} {thing2} for {money2} euros each. How much "
    "does {name} pay in total?",
    "A tank holds {lots} litres and loses {few} litres every hour. How much is left after {some} hours?",
    "What is {many} times {few} plus {many2}?",
    "The sum of two numbers is {lots} and one of them is {many}. What is the other number?",
)
PROBLEM_FRAMES = (
    "{0}", "{0}", "{0}", "{0}\nThink step by step.", "Solve this problem: {0}", "Question: {0}\nAnswer:",
    "{0} Show your work and give the final answer in the last line.",
)  # fmt: skip


def problem(draw: Draw) -> Body:
    """A sum in words."""
    text = draw.form(PROBLEM_FRAMES).format(draw.fill(draw.form(PROBLEMS)))
    if draw.chance(0.1):
        shown = "\n\n".join(f"Question: {draw.fill(draw.form(PROBLEMS))}" for _ in range(2))
        return asks(f"Solve these problems one after the other.\n\n{shown}")
    return asks(text, "You are good at mathematics." if draw.chance(0.15) else None)


# Each: how a message says it, and the fields of its record.
RECORDS: tuple[tuple[str, dict[str, str]], ...] = (
    (
        "This is {name} {surname}. Please book me a room in {city} from {day}, for {few} nights, with breakfast.",
        {
            "guest_name": "{name} {surname}", "city": "{city}", "arrival_day": "{day}", "nights": "{few}",
            "breakfast": "true",
        },
    ),
    (
        "Order {many} for {company}: {some} {thing}. State: complete. Signed by {name} {surname}.",
        {
            "order": "{many}", "customer": "{company}", "quantity": "{some}", "article": "{thing}",
            "signed_by": "{name} {surname}",
        },
    ),
    (
        "{name} {surname}, aged {age}, works as a {job} in {city} and likes {hobby}.",
        {"name": "{name} {surname}", "age": "{age}", "job": "{job}", "city": "{city}", "hobby": "{hobby}"},
    ),
    (
        "The book {book} by {name} {surname} came out in {year} and costs {money} euros.",
        {"title": "{book}", "author": "{name} {surname}", "year": "{year}", "price": "{money}"},
    ),
    (
        "On {day} at {hour} there is a meeting about {topic} at the {place}. {name} and {name2} will come.",
        {"day": "{day}", "hour": "{hour}", "subject": "{topic}", "place": "{place}", "people": '["{name}", "{name2}"]'},
    ),
    (
        "Our {product} is {colour}, weighs {some} kilograms and is made by {company} in {country}.",
        {
            "product": "{product}", "colour": "{colour}", "weight": "{some}", "maker": "{company}",
            "country": "{country}",
        },
    ),
)  # fmt: skip
RECORD_FRAMES = (
    "Turn the message into a JSON record with the fields {fields}.\n\nMessage: {message}",
    "{message}\n\nExtract {fields} as JSON and nothing else.",
    "Extract the data from the text as JSON.\n\nText: {message}\nFields: {fields}",
    "Read this text and list {fields}, one per line.\n\n{message}",
)


def record(draw: Draw) -> Body:
    """A record read out of a message, with or without worked examples before it."""
    says, fields = draw.form(RECORDS)
    if draw.chance(0.5):
        return asks(draw.form(RECORD_FRAMES).format(fields=", ".join(fields), message=draw.fill(says)))
    shown: list[Message] = [Message("system", "You turn each message into one JSON record.")]
    for _ in range(draw.number(1, 3)):
        message, answer = draw.fill(says + "\3" + _template(fields)).split("\3")
        shown += [Message("user", message), Message("assistant", answer)]
    return Body((*shown, Message("user", draw.fill(says))))


def _template(fields: dict[str, str]) -> str:
    """The record as JSON with the templates' fields still in it, so that message and record draw the same."""
    bare = ("{few}", "{many}", "{some}", "{age}", "{year}", "{money}", "{hour}", "true")
    values = [v if v in bare or v.startswith("[") else json.dumps(v) for v in fields.values()]
    inside = ", ".join(f'"{key}": {value}' for key, value in zip(fields, values, strict=True))
    return "{{" + inside + "}}"


PARAMETERS: dict[str, tuple[str, str]] = {
    "city": ("string", "The name of the city."), "amount": ("integer", "The amount of money in euros."),
    "date": ("string", "The day, such as Monday."), "unit": ("string", "The unit of the result."),
    "count": ("integer", "How many results to return."), "name": ("string", "The name of the person."),
    "radius": ("number", "The radius in metres."), "language": ("string", "The language to use."),
    "rate": ("number", "The interest rate in percent."), "years": ("integer", "The number of years."),
    "color": ("string", "The color to use."), "items": ("array", "The list of items."),
    "sorted": ("boolean", "Whether the result is sorted."), "topic": ("string", "What the text is about."),
}  # fmt: skip
REQUESTS = (
    "Find the {thing} in {city} that cost less than {money} euros.", "What is the weather in {city} on {day}?",
    "Compute the interest on {lots} euros at {few} percent after {some} years.",
    "Book a table for {few} people in {city}.",
    "Translate '{animal}' into the language of {country}.", "Send a message to {name} about {topic}.",
    "List the {few} largest cities of {country}.", "Convert {many} miles to kilometres.",
    "Give me {few} books about {topic}.", "What is the area of a circle with radius {many}?",
    "Schedule a meeting with {name} {surname} on {day} at {hour}.", "Sort the {thing} by price.",
)  # fmt: skip


def call(draw: Draw) -> Body:
    """Functions as JSON, and a request to be answered with a call."""
    functions = [_function(draw) for _ in range(draw.number(1, 2))]
    request = draw.fill(draw.form(REQUESTS))
    shown = json.dumps(functions, indent=1 if draw.chance(0.6) else None)
    return asks(
        f"These functions exist:\n{shown}\n\nAnswer the request with one function call, as JSON like "
        f'{{"name": "...", "arguments": {{"...": "..."}}}} and nothing else.\n\nRequest: {request}'
    )


def _function(draw: Draw) -> dict[str, Any]:
    chosen = draw.several(tuple(PARAMETERS), draw.number(1, 3))
    properties = {key: dict(zip(("type", "description"), PARAMETERS[key], strict=True)) for key in chosen}
    name = draw.fill("{verb}_{noun}")
    return {
        "name": name,
        "description": draw.fill("Will {verb} the {noun} for a given {place}."),
        "parameters": {"type": "dict", "properties": properties, "required": chosen[:1]},
    }


AGENT_EXAMPLES = (
    (
        "How old is the {place} of {city}?", "{place} of {city}",
        "The {place} of {city} was opened in {year} by {name} {surname}.", "{year}",
    ),
    (
        "Where was the {job} {name} {surname} born?", "{name} {surname}",
        "{name} {surname} is a {job} from {city}, {country}.", "{city}",
    ),
    (
        "How many {thing} does the {place} of {city} have?", "{place} of {city}",
        "The {place} of {city} owns {lots} {thing} and is open on {day}.", "{lots}",
    ),
    (
        "Which animal is the mascot of {company}?", "{company}",
        "{company} was founded in {year}. Its mascot is a {animal}.", "{animal}",
    ),
)  # fmt: skip


def agent(draw: Draw) -> Body:
    """A ReAct trace (Yao et al., arXiv 2210.03629) that the model goes on with, numbered or not."""
    numbered, tool = draw.chance(0.5), draw.form(("Search", "Lookup"))
    traces = [_trace(draw, numbered, tool) for _ in range(draw.number(2, 4))]
    *before, last = traces
    steps = last.split("\n")
    shown = "\n".join(steps[: draw.form((1, 1, 4, 4))])
    thought = f"Thought {(len(shown.splitlines()) - 1) // 3 + 1}:" if numbered else "Thought:"
    # Without a stop the model goes on to make up the observation: more text of the same kind from one prompt.
    stop = ("\nObservation", "\nQuestion:") if draw.chance(0.5) else ("\nQuestion:",)
    return Body(text="\n\n".join([*before, shown]) + f"\n{thought}", stop=stop)


def _trace(draw: Draw, numbered: bool, tool: str) -> str:
    question, title, found, answer = draw.fill("\3".join(draw.form(AGENT_EXAMPLES))).split("\3")
    mark = (" 1", " 2") if numbered else ("", "")
    return (
        f"Question: {question}\nThought{mark[0]}: I need to look up {title}.\nAction{mark[0]}: {tool}[{title}]\n"
        f"Observation{mark[0]}: {found}\nThought{mark[1]}: The answer is {answer}.\nAction{mark[1]}: Finish[{answer}]"
    )
