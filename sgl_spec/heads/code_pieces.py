"""Pieces of code that `prompts_code` asks the model to change. Written for this project.

Stands before any round. {f} is a function's name, {C} a class's; {a}, {b}, {c} are names that belong together; {n} is a
number; a doubled brace is a brace.
"""

from __future__ import annotations

_LINE = "\n----\n"

PIECES: tuple[str, ...] = tuple(
    piece.strip("\n")
    for piece in '''
def {f}({a}):
    total = 0
    for item in {a}:
        total += item
    return total
----
def {f}({a}):
    if not {a}:
        return None
    return max({a})
----
def {f}({a}, {b}):
    result = []
    for item in {a}:
        if item != {b}:
            result.append(item)
    return result
----
def {f}(text: str) -> int:
    """ Return how many vowels are in the text.
    >>> {f}("banana")
    3
    """
    count = 0
    for char in text:
        if char in "aeiou":
            count += 1
    return count
----
from typing import List


def {f}({a}: List[int], {b}: int) -> List[int]:
    """ Return the {a} that are larger than {b}.
    >>> {f}([1, 5, 9], {n})
    """
    return [value for value in {a} if value > {b}]
----
def {f}({a}):
    return {a}[::-1]
----
def {f}({a}):
    counts = {{}}
    for item in {a}:
        counts[item] = counts.get(item, 0) + 1
    return counts
----
def {f}(path):
    with open(path) as file:
        lines = file.readlines()
    return [line.strip() for line in lines if line.strip()]
----
def {f}(n):
    if n <= 1:
        return n
    return {f}(n - 1) + {f}(n - 2)
----
def {f}({a}):
    seen = set()
    result = []
    for item in {a}:
        if item not in seen:
            seen.add(item)
            result.append(item)
    return result
----
class {C}:
    def __init__(self, {a}):
        self.{a} = {a}
        self.{b} = {n}

    def {f}(self, {c}):
        self.{a}.append({c})
        return len(self.{a})
----
def {f}(name, {a}):
    print("Report")
    print("------")
    print("Name:", name)
    print("{a}:", {a})
    print("Done.")
----
settings = {{
    "host": "localhost",
    "port": {n}080,
    "{a}": {n},
    "retries": 3,
    "debug": False,
}}
----
def {f}(low: int, high: int) -> List[int]:
    {a} = []
    for number in range(low, high + 1):
        if number % {n} == 0:
            {a}.append(number)
    return {a}
----
def {f}({a}, {b}=10):
    for index, value in enumerate({a}):
        if value == {b}:
            return index
    return -1
----
def {f}(first: str, second: str) -> bool:
    """ Check if both strings have the same letters.
    >>> {f}("listen", "silent")
    True
    >>> {f}("abc", "abd")
    False
    """
    return sorted(first) == sorted(second)
----
import math


def {f}(radius: float) -> float:
    return math.pi * radius ** 2
----
def {f}(matrix):
    rows = len(matrix)
    columns = len(matrix[0])
    result = []
    for j in range(columns):
        result.append([matrix[i][j] for i in range(rows)])
    return result
----
function {f}({a}) {{
  let total = 0;
  for (const item of {a}) {{
    total += item.price;
  }}
  return total;
}}
----
const {f} = async ({a}) => {{
  const response = await fetch(`/api/${{{a}}}`);
  return response.json();
}};
----
<ul>
  <li>{a}</li>
  <li>{b}</li>
  <li>{c}</li>
</ul>
----
public static int {f}(int[] {a}) {{
    int best = {a}[0];
    for (int value : {a}) {{
        if (value > best) {{
            best = value;
        }}
    }}
    return best;
}}
----
def {f}(n: int) -> bool:
    if n < 2:
        return False
    for i in range(2, int(n ** 0.5) + 1):
        if n % i == 0:
            return False
    return True
----
def {f}({a}: List[float], {b}: float) -> bool:
    """ Check if any two {a} are closer than {b}.
    >>> {f}([1.0, 2.5], 0.3)
    False
    """
    for i, x in enumerate({a}):
        for j, y in enumerate({a}):
            if i != j and abs(x - y) < {b}:
                return True
    return False
----
def {f}({a}):
    try:
        return int({a})
    except ValueError:
        return {n}
----
def {f}(text):
    words = text.split()
    longest = ""
    for word in words:
        if len(word) > len(longest):
            longest = word
    return longest
----
def {f}({a}, {b}):
    merged = []
    i, j = 0, 0
    while i < len({a}) and j < len({b}):
        if {a}[i] < {b}[j]:
            merged.append({a}[i])
            i += 1
        else:
            merged.append({b}[j])
            j += 1
    return merged + {a}[i:] + {b}[j:]
----
def {f}(n):
    result = 1
    for i in range(2, n + 1):
        result *= i
    return result
----
def {f}(celsius):
    return celsius * 9 / 5 + 32
----
def {f}({a}: List[str], {b}: str) -> List[str]:
    """ Keep only the {a} that start with {b}.
    """
    return [x for x in {a} if x.startswith({b})]
'''.split(_LINE)
)
