"""A character sheet held to a regular expression, as in SGLang's json_jump_forward benchmark.

What speculation profits from: the expression forces the keys, the punctuation and the white space, which is most of
the sheet. After a few sheets the words that all of them share are known too.
"""

import sglang as sgl

TEXT = r"[A-Z][a-zA-Z' ]{1,30}"
TEXTS = rf'\["{TEXT}", "{TEXT}"\]'
SHEET = (
    r"\{\n"
    rf'  "name": "{TEXT}",\n'
    rf'  "from_the_book": "{TEXT}",\n'
    r'  "age": [1-9][0-9]{0,2},\n'
    rf'  "home": "{TEXT}",\n'
    r'  "calling": "(detective|outlaw|sailor|scientist|traveller|ruler|child)",\n'
    r'  "temper": "(calm|proud|kind|cruel|curious)",\n'
    r'  "is_a_villain": (true|false),\n'
    rf'  "friends": {TEXTS}\n'
    r"\}"
)

EXAMPLES = {
    "Long John Silver": """{
  "name": "Long John Silver",
  "from_the_book": "Treasure Island",
  "age": 50,
  "home": "Bristol",
  "calling": "sailor",
  "temper": "cruel",
  "is_a_villain": true,
  "friends": ["Jim Hawkins", "Captain Flint"]
}""",
    "Dorothy": """{
  "name": "Dorothy Gale",
  "from_the_book": "The Wizard of Oz",
  "age": 12,
  "home": "Kansas",
  "calling": "child",
  "temper": "kind",
  "is_a_villain": false,
  "friends": ["The Scarecrow", "The Tin Woodman"]
}""",
}


@sgl.function
def character_sheet(s, name):
    s += sgl.system("You fill in a sheet for each character of a famous book.")
    for example, sheet in EXAMPLES.items():
        s += sgl.user(f"Who is {example}?")
        s += sgl.assistant(sheet)
    s += sgl.user(f"Who is {name}?")
    s += sgl.assistant(sgl.gen("sheet", max_tokens=128, temperature=0, regex=SHEET))


PROGRAM = character_sheet


def inputs():
    names = ["Peter Pan", "Captain Ahab", "Captain Nemo", "Victor Frankenstein", "Ebenezer Scrooge", "Gulliver"]
    return [{"name": name} for name in names]


if __name__ == "__main__":
    from sgl_spec.frontend.program_main import run_program_file

    raise SystemExit(run_program_file(__file__))
