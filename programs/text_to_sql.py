"""Text to SQL over a real sqlite file: the query's result goes back into the program, which then answers in words.

A query that fails goes back too, with sqlite's own words, and the model may try once more.

What speculation profits from: queries are put together from the examples, the schema and the words of the question, and
the answer repeats the question and the result.
"""

import functools
import sqlite3
import tempfile
from pathlib import Path

import sglang as sgl

HERE = Path(__file__).parent
EXAMPLES = (HERE / "text_to_sql_examples.txt").read_text(encoding="utf-8")
FOLDER = tempfile.TemporaryDirectory(prefix="text_to_sql_")
READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION}
ATTEMPTS = 2


@functools.cache
def database():
    """The file, made from library.sql when it is first asked for; it goes when Python ends."""
    path = Path(tempfile.mkdtemp(dir=FOLDER.name)) / "library.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript((HERE / "library.sql").read_text(encoding="utf-8"))
    connection.close()
    return path


def run_query(sql):
    """The first rows as text. The model's SQL may only read, and may not run for long."""
    connection = sqlite3.connect(f"{database().as_uri()}?mode=ro", uri=True)
    connection.set_authorizer(lambda action, *_: sqlite3.SQLITE_OK if action in READING else sqlite3.SQLITE_DENY)
    connection.set_progress_handler(lambda: 1, 1_000_000)
    try:
        rows = connection.execute(sql).fetchmany(5)
        return "Result: " + ("; ".join(", ".join(map(str, row)) for row in rows) or "nothing")
    except (sqlite3.Error, sqlite3.Warning) as error:
        return f"Error: {error}"
    finally:
        connection.close()


@sgl.function
def text_to_sql(s, question):
    s += EXAMPLES + f"Question: {question}\n"
    for _ in range(ATTEMPTS):
        s += "SQL:" + sgl.gen("query", max_tokens=64, temperature=0, stop=[";", "\n"])
        outcome = run_query(s["query"])
        s += f";\n{outcome}\n"
        if outcome.startswith("Result"):
            break
    s += "Answer:" + sgl.gen("answer", max_tokens=48, temperature=0, stop="\n")
    return s["answer"].strip()


PROGRAM = text_to_sql


def inputs():
    questions = [
        "Which books did Austen write?",
        "Who lives in Lisbon?",
        "How many pages does Walden have?",
        "How many loans are there?",
        "Who joined in 2021?",
        "Which books did Eliot write?",
    ]
    return [{"question": question} for question in questions]


if __name__ == "__main__":
    from sgl_spec.frontend.program_main import run_program_file

    raise SystemExit(run_program_file(__file__))
