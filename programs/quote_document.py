"""Quotes passages of a document word for word: text that lookup can draft, for it is in the prompt."""

import sglang as sgl

DOCUMENT = {
    "Opening hours": "The reading room is open from nine in the morning until six in the evening, Monday to Friday. "
    "On Saturday it closes at noon. It stays shut on Sunday. During the summer holidays the room opens one hour "
    "later, and a notice gives the exact dates for each year.",
    "Borrowing": "A reader may borrow up to eight books at a time and keep each of them for three weeks. A loan can "
    "be renewed twice, unless another reader has asked for the same book. Maps, newspapers and manuscripts cannot "
    "leave the building, but the staff will gladly make copies of single pages.",
    "Equipment list": "1. two flatbed scanners\n2. a microfilm reader\n3. four desk lamps with magnifiers\n"
    "4. a large map table\n5. a book cradle for old bindings\n6. twelve lockers with keys\n"
    "7. a printer for colour pages\n8. three computers for the catalogue",
}


@sgl.function
def quote_document(s, title):
    document = "\n\n".join(f"## {heading}\n{text}" for heading, text in DOCUMENT.items())
    s += sgl.user(f"{document}\n\nRepeat the section '{title}' of this document word for word.")
    with s.assistant():
        s += f"## {title}\n" + sgl.gen("quote", max_tokens=128, temperature=0, stop=["\n\n", "##"])
    return s["quote"] == DOCUMENT[title]


PROGRAM = quote_document


def inputs():
    return [{"title": title} for title in DOCUMENT]


if __name__ == "__main__":
    from sgl_spec.frontend.program_main import run_program_file

    raise SystemExit(run_program_file(__file__))
