"""300 common words, each once: the lines of the list that the workload `copy` asks the model to copy.

Real words, because a small model copies those; it loses its place in a list of numbers, phrases or invented names.
"""

from __future__ import annotations

_TEXT = """
amber birch cedar copper coral crystal ember falcon forest frost garden golden harbor indigo ivory jasmine lantern
maple marble meadow mellow ocean olive orchid pebble pine quartz raven river saffron sapphire scarlet shadow silver
summer sunset thunder timber velvet violet willow winter anchor apron arrow basket bell blanket bottle bowl bridge
brush bucket button cabinet candle carpet chair chest clock coat compass cup curtain desk door drum engine fence
flag flute fork frame gate glass glove hammer helmet jar kettle key ladder lamp locket mirror needle oven paddle
pencil pillow plate purse rope saddle shelf shovel spoon stove table ticket trumpet vase violin wagon wheel whistle
doctor teacher baker pilot farmer lawyer painter singer nurse driver chef writer clerk judge tailor London Paris
Berlin Madrid Rome Oslo Vienna Prague Lisbon Dublin Athens Warsaw Cairo Tokyo Delhi Lima Quito Havana Boston Denver
tiger rabbit monkey donkey spider turtle pigeon salmon lizard badger beaver camel dolphin eagle ferret goose hamster
jaguar kitten leopard moose otter panther quail seal toad walrus zebra apple banana cherry grape lemon mango peach
pear plum melon onion garlic carrot potato tomato pepper spinach celery cabbage bean bread butter cheese honey sugar
coffee pasta sauce soup salad sandwich cookie pancake waffle yogurt cereal island valley desert canyon
glacier volcano lagoon prairie jungle swamp beach cliff cave hill lake pond stream waterfall museum library school
hospital theater station airport market bakery stadium castle palace temple chapel tower tunnel factory warehouse
shirt jacket trousers sock shoe boot scarf belt sweater dress skirt pajamas umbrella wallet backpack suitcase napkin
towel soap shampoo sponge broom mop toothbrush razor comb
Monday Tuesday Friday January March August soccer tennis hockey boxing golf rugby chess poker guitar piano cello harp
banjo planet comet galaxy rocket satellite magnet battery camera laptop printer keyboard monitor speaker radio
"""

WORDS = tuple(_TEXT.split())
