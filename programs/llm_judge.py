"""A judge: six forks look at one text, each in its own dimension, and their verdicts are joined into one.

What speculation profits from: every verdict has the shape of the examples, which `sgl_spec.expect` declares; the six
forks share their prefix and write much the same; and the last line takes up words of the six.
"""

import sglang as sgl

import sgl_spec

EXAMPLES = """\
Notice: "Please stay away from the pool in Mill Lane on Monday, because it is cleaned. Ask Ms Hall for more."
Does it say when? Yes, it says "on Monday".
Does it say where? Yes, it says "in Mill Lane".
Does it say why? Yes, it says "because it is cleaned".
Does it say please? Yes, it says "Please stay away".
Does it say what to do? Yes, it says "stay away".
Does it say whom to ask? Yes, it says "Ask Ms Hall".
In short: The notice says everything.

Notice: "Use the stove in the kitchen on Friday. Mr Otto brings wood."
Does it say when? Yes, it says "on Friday".
Does it say where? Yes, it says "in the kitchen".
Does it say why? No, it does not.
Does it say please? No, it does not.
Does it say what to do? Yes, it says "Use the stove".
Does it say whom to ask? No, it does not.
In short: The notice does not say why, please and whom to ask.

"""
QUESTIONS = ["when", "where", "why", "please", "what to do", "whom to ask"]


@sgl.function
def llm_judge(s, notice):
    s += EXAMPLES + f'Notice: "{notice}"\n'
    forks = s.fork(len(QUESTIONS))
    for fork, question in zip(forks, QUESTIONS, strict=True):
        verdict = sgl.gen("verdict", max_tokens=32, temperature=0, stop="\n")
        fork += f"Does it say {question}?" + sgl_spec.expect(
            verdict, [' Yes, it says "', " No, it does not."], ..., '".'
        )
    forks.join()
    for fork, question in zip(forks, QUESTIONS, strict=True):
        s += f"Does it say {question}?{fork['verdict']}\n"
    s += "In short:" + sgl.gen("overall", max_tokens=48, temperature=0, stop="\n")
    return s["overall"].strip()


PROGRAM = llm_judge


def inputs():
    notices = [
        "The lift in Oak Street is out of order on Friday, because it is being repaired. Please take the stairs.",
        "The library in Park Road opens at ten today. Ask Ms Reed at the desk.",
        "Put your bicycles in the cellar, because the yard is painted on Tuesday.",
        "Please join us in the garden on Sunday at three. Call Tom for more.",
    ]
    return [{"notice": notice} for notice in notices]


if __name__ == "__main__":
    from sgl_spec.frontend.program_main import run_program_file

    raise SystemExit(run_program_file(__file__))
