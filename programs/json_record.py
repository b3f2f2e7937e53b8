"""Reads one JSON record out of each of several short texts, held to a schema, after two worked examples."""

import json

import sglang as sgl

SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "guest_name": {"type": "string", "maxLength": 40},
            "city": {"type": "string", "maxLength": 30},
            "arrival_day": {"type": "string", "maxLength": 20},
            "number_of_nights": {"type": "integer", "minimum": 1, "maximum": 99},
            "breakfast_included": {"type": "boolean"},
        },
        "required": ["guest_name", "city", "arrival_day", "number_of_nights", "breakfast_included"],
        "additionalProperties": False,
    }
)

EXAMPLES = [
    (
        "Hello, this is Maria Lopez. I would like a room in Madrid from Monday, for 2 nights, with breakfast.",
        '{"guest_name": "Maria Lopez", "city": "Madrid", "arrival_day": "Monday", '
        '"number_of_nights": 2, "breakfast_included": true}',
    ),
    (
        "Omar Farouk here. Please book me a room in Cairo from Sunday, for 6 nights, without breakfast.",
        '{"guest_name": "Omar Farouk", "city": "Cairo", "arrival_day": "Sunday", '
        '"number_of_nights": 6, "breakfast_included": false}',
    ),
]


@sgl.function
def json_record(s, request_text):
    s += sgl.system("You turn each booking request into one JSON record.")
    for request, record in EXAMPLES:
        s += sgl.user(request)
        s += sgl.assistant(record)
    s += sgl.user(request_text)
    s += sgl.assistant(sgl.gen("record", max_tokens=96, temperature=0, json_schema=SCHEMA))
    return s["record"]


PROGRAM = json_record


def inputs():
    texts = [
        "My name is Peter Brown. Please book me a room in London from Friday, for 3 nights, with breakfast.",
        "Good day, Anna Rossi here. I need a room in Rome from Tuesday, for 5 nights, without breakfast.",
        "This is Kenji Sato. I would like to stay in Osaka from Monday, for 1 night, with breakfast.",
        "Hello, Fatima Haddad speaking. A room in Tunis from Wednesday, for 4 nights, without breakfast, please.",
        "I am Lars Nilsen. Could I have a room in Bergen from Thursday, for 7 nights, with breakfast?",
        "Hi, it is Chloe Martin. I am coming to Lyon on Saturday, for 2 nights, and I want breakfast.",
    ]
    return [{"request_text": text} for text in texts]


if __name__ == "__main__":
    from sgl_spec.frontend.program_main import run_program_file

    raise SystemExit(run_program_file(__file__))
