"""Prompts of people: chat, turns the model writes itself, questions about a passage, and quoting from it.

Drawn before any round; `prompts` chooses among the functions here, each of which takes a `Draw` and returns a `Body`.
"""

from __future__ import annotations

from sgl_spec.heads.body import MODEL_WRITES, Body, Message, asks
from sgl_spec.heads.draw import Draw

QUESTIONS = (
    "Explain {topic} to {audience}.",
    "What is {topic}, and why does it matter?",
    "Write a short story about {situation}.",
    "Write an email {message}.",
    "What is the difference between {topic} and {topic2}?",
    "Give me five tips: {problem}.",
    "{problem}. What should I do?",
    "Describe a day in the life of a {job} in {city}.",
    "What are the advantages and disadvantages of {topic}?",
    "Write a poem about {topic}.",
    "How do I make {food}? Give me a recipe.",
    "Plan a weekend in {city} for someone who loves {hobby}.",
    "Write a product description of a {product} by {company}.",
    "Summarize what you know about {topic} in {style}.",
    "Compare the work of a {job} with that of a {job2}.",
    "Write a dialogue between a {job} and a {job2} about {topic}.",
    "Imagine you are a {animal}. Tell me about your day.",
    "Pretend to be a {job} who explains {topic}.",
    "What would happen if there were no {topic}?",
    "Write a speech about {topic} for {audience}.",
    "List {few} interesting facts about {topic}.",
    "List {few} questions an interviewer may ask a {job}.",
    "How did {topic} change the world?",
    "Write a review of the book {book}.",
    "Write the first paragraph of a novel called {book}.",
    "Draft a blog post about {hobby} in {country}.",
    "What does a {job} need to know about {topic}?",
    "How can I learn {hobby} at the age of {age}?",
    "Describe the {quality} {place} of {city} for a travel guide.",
    "Is it better to live in {city} or in {city2}? Give reasons.",
    "Translate into French: The {animal} sleeps near the {quality} {place}.",
    "Correct the grammar: Me and {name} was going to the {place} for buy {thing}.",
    "Rewrite this sentence more politely: Give me the {thing} now, {name}.",
    "Name the main steps of starting a {place} in {city}.",
    "Write a slogan and a short advertisement for the {product} of {company}.",
    "Argue for and against this claim: everybody should learn about {topic}.",
    "Which famous person is linked with {topic}? Explain briefly.",
    "Write a letter from {name} in {city} to {name2} in {city2}.",
    "Create an outline of a talk about {topic} with {few} sections.",
    "Give a definition of {topic} and two examples.",
    "Tell a joke about a {job} and a {animal}.",
    "Who invented the things behind {topic}?",
    "Which is older, {topic} or {topic2}?",
    "How does {topic} work?",
    "Why is {topic} important in {country}?",
    "Make a checklist for someone who wants to begin with {hobby}.",
    "Describe how {topic} is taught at school, in {style}.",
)
SUFFIXES = ("", "", "", "", "", " Answer in {style}.", " Keep it short.", " Write about 100 words.", " Use {style}.")
FOLLOW_UPS = (
    "Now say the same in {style}.",
    "Can you make it shorter?",
    "Rewrite your answer for {audience}.",
    "Give me an example.",
    "Why?",
    "Tell me more about the first point.",
    "Translate the answer into Spanish.",
    "How is this connected with {topic}?",
    "Summarize your answer in one sentence.",
    "List the main points.",
    MODEL_WRITES,
    MODEL_WRITES,
    MODEL_WRITES,
)

# How users begin. Most often the model begins itself.
BEGINNINGS = (
    "", "", "", "", "", "", "Write", "How", "What", "Explain", "Can you", "I", "Create", "Why", "Describe", "Give",
    "Imagine", "Please", "Is", "Find", "Compose", "Tell me", "Suppose", "Develop", "Design", "Here is", "Hi,",
    "Compare",
    "List", "You are", "Calculate", "Summarize", "The following", "Rewrite", "Convert", "Let", "Given", "In", "Which",
)  # fmt: skip


def chat(draw: Draw) -> Body:
    """A question on the topics of `word_lists`, now and then with a second turn."""
    user = draw.fill(draw.form(QUESTIONS) + draw.form(SUFFIXES))
    user = user[0].upper() + user[1:]
    later = (draw.fill(draw.form(FOLLOW_UPS)),) if draw.chance(0.15) else ()
    return asks(user, _system(draw), later)


def self_chat(draw: Draw) -> Body:
    """Self-instruct without seeds (compare Wang et al., arXiv 2212.10560): the model is asked for the user's turn."""
    later = (MODEL_WRITES,) if draw.chance(0.2) else ()
    body = asks(draw.form(BEGINNINGS), _system(draw), later)
    return body._replace(open_user=True)


def _system(draw: Draw) -> str | None:
    """None, that is the chat template's own default, for most."""
    return draw.fill("{system}") if draw.chance(0.25) else None


FACTS = (
    "The {place} of {city} was opened in {year} by {name} {surname}, a {job}.",
    "It stands near the {quality} {place2} and is open from {hour} in the morning.",
    "Every {day} the {place} shows its collection of {thing}, which has {lots} pieces.",
    "A ticket costs {money} euros; children under {few} pay nothing.",
    "In {year2} a storm destroyed the roof, and the {place} stayed closed for {some} months.",
    "{name2} {surname2}, who was born in {country}, has been its director since {year3}.",
    "Visitors may bring a {animal}, but they have to keep it away from the {thing2}.",
    "The building is {quality2} and has {few2} floors.",
    "During {month} about {lots2} people come to see it.",
    "The money is used for {topic} courses, which are held on {day2}.",
    "In its garden lives a {animal2} that the children call {name3}.",
    "A smaller {place} was planned in {city2}, but it was never built.",
)
PASSAGE_QUESTIONS = (
    "Who opened the {place}?", "When was it opened, and by whom?", "How much is a ticket?",
    "What is said about {month}?",
    "What happened to the roof?", "Who is the director?", "What lives in the garden?", "What is the money used for?",
    "Where does it stand?", "How many floors does the building have?", "Which animals may visitors bring?",
)  # fmt: skip
PASSAGE_TASKS = (
    "Answer the question from the passage: {question}",
    "{question} Answer in one sentence and quote the words of the text.",
    "Use only the text above. {question}",
    "{question}",
    "Summarize the passage.",
    "Summarize the text in two sentences.",
    "Repeat the passage word for word.",
    "Quote the first two sentences of the passage.",
    "Quote every sentence that has a number in it.",
    "Rewrite the passage in simple words.",
    "List the facts of the passage, one per line.",
    "Translate the passage into German.",
    "Which sentence answers the question '{question}'? Copy it.",
    "Write {few} questions about the passage and answer them.",
)
PASSAGE_FRAMES = (
    "{passage}\n\n{task}",
    "Read this passage.\n\n{passage}\n\n{task}",
    "Context: {passage}\n\nQuestion: {task}",
    'Here is a document:\n"""\n{passage}\n"""\n{task}',
    "[1] {passage}\n\n[2] {other}\n\nUse the documents above. {task}",
    "## {title}\n{passage}\n\n## {title2}\n{other}\n\nRepeat the section '{title}' of this document word for word.",
)


def passage(draw: Draw) -> Body:
    """A made-up document, and a task about it: answering, quoting, repeating, summarising."""
    first, second = _paragraph(draw, 3, 7), _paragraph(draw, 2, 4)
    question = draw.fill(draw.form(PASSAGE_QUESTIONS))
    titles = draw.several(("Opening", "Prices", "History", "Visits", "Garden", "Plans", "People", "Seasons"), 2)
    values = {
        "passage": first, "other": second, "title": titles[0], "title2": titles[1],
        "task": draw.fill(draw.form(PASSAGE_TASKS).replace("{question}", question)),
    }  # fmt: skip
    return asks(draw.form(PASSAGE_FRAMES).format(**values), _system(draw))


def _paragraph(draw: Draw, least: int, most: int) -> str:
    chosen = draw.number(least, most)
    # In the order above, and always with the sentence that names the place.
    kept = sorted({0, *(draw.number(1, len(FACTS) - 1) for _ in range(chosen))})
    return draw.fill(" ".join(FACTS[at] for at in kept))


NOTICES = (
    "Please stay away from the {place} on {day}, because it is being repaired.",
    "The {place} opens at {hour} on {day}. Ask {name} {surname} for more.",
    "Bring your {thing} to the {place} before {day}.",
    "The {place} in {city} is closed in {month}, because the roof leaks. Please use the side door.",
    "Join us at the {place} on {day}. {name} brings {food}.",
)
JUDGEMENTS = (
    "Does it say when?", "Does it say where?", "Does it say why?", "Is it polite?", "Does it say whom to ask?",
    "Rate it from 1 to 10 and explain.",
)  # fmt: skip


def judge(draw: Draw) -> Body:
    """A text to be judged in several dimensions."""
    notice = draw.fill(" ".join(draw.several(NOTICES, draw.number(1, 2))))
    questions = draw.several(JUDGEMENTS, draw.number(1, 3))
    if draw.chance(0.5):
        return asks(f'Notice: "{notice}"\n' + "\n".join(questions))
    text = f'Essay: "{draw.fill(draw.form(QUESTIONS))} {notice}"\nJudge the text by these points.\n' + "\n".join(
        questions
    )
    return Body((Message("system", "You are a fair judge of texts."), Message("user", text)))
