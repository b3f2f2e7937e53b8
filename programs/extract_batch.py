"""Extraction over a batch of documents: every delivery note becomes one record of the same JSON schema.

`extract_batch.run_batch(inputs(), backend=endpoint)` runs the documents side by side.

What speculation profits from: the schema forces the keys and offers few words for `state`; names, numbers and articles
are copied from the note; and every record looks like the ones before it.
"""

import json

import sglang as sgl


def closed(**properties):
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


TEXT = {"type": "string", "maxLength": 24}
ITEM = closed(quantity={"type": "integer", "minimum": 1, "maximum": 999}, article=TEXT)
RECORD = closed(
    order={"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4}$"},
    customer=TEXT,
    items={"type": "array", "items": ITEM, "minItems": 1, "maxItems": 3},
    state={"type": "string", "enum": ["complete", "damaged", "missing"]},
    signed_by={"anyOf": [TEXT, {"type": "null"}]},
)

EXAMPLES = """Order BK-2071 for the Hill School: 30 chairs, 15 tables. State: complete. Signed by Ms Adler.
{"order": "BK-2071", "customer": "Hill School", "items": [{"quantity": 30, "article": "chairs"}, \
{"quantity": 15, "article": "tables"}], "state": "complete", "signed_by": "Ms Adler"}

Order RT-5530 for Cafe Luna: 12 lamps. State: damaged. Nobody signed.
{"order": "RT-5530", "customer": "Cafe Luna", "items": [{"quantity": 12, "article": "lamps"}], \
"state": "damaged", "signed_by": null}

Order PW-8214 for the Blue Theatre: 5 mirrors, 1 ladder. State: missing. Signed by Mr Haas.
{"order": "PW-8214", "customer": "Blue Theatre", "items": [{"quantity": 5, "article": "mirrors"}, \
{"quantity": 1, "article": "ladder"}], "state": "missing", "signed_by": "Mr Haas"}"""


@sgl.function
def extract_batch(s, note):
    s += sgl.system("You turn each delivery note into one JSON record.")
    for example in EXAMPLES.split("\n\n"):
        example_note, record = example.split("\n")
        s += sgl.user(example_note)
        s += sgl.assistant(record)
    s += sgl.user(note)
    s += sgl.assistant(sgl.gen("record", max_tokens=96, temperature=0, json_schema=json.dumps(RECORD)))


PROGRAM = extract_batch


def inputs():
    notes = [
        "Order MD-1184 for the Old Mill Hotel: 40 pillows, 20 beds. State: complete. Signed by Mr Okafor.",
        "Order QS-7702 for Garage Weber: 4 wheels. State: missing. Signed by Ms Weber.",
        "Order TL-3096 for the City Library: 8 desks, 200 books. State: complete. Signed by Ms Novak.",
        "Order AF-6415 for Bakery Dupont: 25 boxes. State: damaged. Signed by Mr Dupont.",
        "Order ZK-9028 for the Sports Club: 18 balls, 2 bags. State: complete. Signed by Ms Costa.",
        "Order HV-4457 for Doctor Lind: 3 phones. State: damaged. Nobody signed.",
    ]
    return [{"note": note} for note in notes]


if __name__ == "__main__":
    from sgl_spec.frontend.program_main import run_program_file

    raise SystemExit(run_program_file(__file__))
