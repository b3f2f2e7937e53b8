"""What our prompts talk about: the values of `{field}` in the templates of `prompts_*`. Written for this project.

Nothing here comes from a benchmark. The order of a list matters: every fifth item is kept for held-out prompts
(`draw.Draw.pick`), so that a held-out prompt is about things that no training prompt named.
"""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    """Items separated by semicolons."""
    return tuple(" ".join(item.split()) for item in text.split(";") if item.strip())


LISTS: dict[str, tuple[str, ...]] = {
    "name": _words(
        """Ada; Bruno; Celia; Dario; Edda; Farid; Greta; Hamid; Irma; Jonas; Kira; Leon; Mirela; Nuno; Odile; Pavel;
        Quentin; Rosa; Selim; Thea; Ulf; Vera; Wanda; Ximena; Yusuf; Zora; Anton; Brigid; Cyril; Dilara; Emil;
        Fiona; Gideon; Hana; Ivo; Jelena; Kofi; Lucia; Marek; Nadia; Otis; Priya; Rafael; Saskia; Tariq; Una;
        Viktor; Wren"""
    ),
    "surname": _words(
        """Albrecht; Barros; Castell; Dimov; Eriksen; Fontaine; Gallo; Horvat; Ivanek; Jansen; Keller; Lindqvist;
        Mensah; Navarro; Okoye; Petrov; Quint; Ramirez; Sorensen; Tanaka; Ueda; Vance; Whitlock; Yilmaz; Zeman;
        Ashby; Brandt; Corbin; Dalton; Elwood"""
    ),
    "city": _words(
        """Porto; Ghent; Tartu; Lviv; Trieste; Aarhus; Split; Bilbao; Cork; Lublin; Kyoto; Cusco; Hobart; Quito;
        Leipzig; Turku; Malmo; Basel; Toulouse; Plovdiv; Adelaide; Halifax; Denver; Savannah; Tucson; Boise; Dakar;
        Accra; Hanoi; Nairobi; Fez; Izmir; Galway; Bergamo; Salzburg"""
    ),
    "country": _words(
        """Portugal; Estonia; Ghana; Peru; Japan; Norway; Vietnam; Morocco; Chile; Iceland; Kenya; Mexico; Austria;
        Indonesia; New Zealand; Poland; Egypt; Bolivia; Canada; Greece; Finland; Nepal; Uruguay; Senegal; Ireland"""
    ),
    "animal": _words(
        """otter; heron; badger; gecko; lynx; puffin; tortoise; hedgehog; falcon; salamander; moose; hamster; parrot;
        dolphin; wolf; goat; raven; beaver; koala; seahorse; camel; owl; squirrel; penguin; rabbit"""
    ),
    "thing": _words(
        """apples; pencils; stamps; bricks; marbles; tickets; lanterns; notebooks; buttons; candles; tiles; cups;
        ropes; seeds; coins; stickers; shells; bottles; nails; blankets; oranges; plates; balloons; cards; crayons;
        keys; muffins; baskets; ribbons; flowers; cookies; eggs; chairs; books; shirts"""
    ),
    "food": _words(
        """lentil soup; apple pie; fried rice; onion tart; mushroom risotto; fish stew; banana bread; potato salad;
        pancakes; vegetable curry; tomato sauce; oatmeal; pumpkin soup; bean chili; lemon cake; garlic bread; spring
        rolls; omelette; noodle salad; cheese dumplings"""
    ),
    "job": _words(
        """nurse; carpenter; librarian; pilot; baker; plumber; teacher; gardener; lawyer; chemist; welder; tailor;
        photographer; bus driver; dentist; beekeeper; electrician; translator; firefighter; accountant; park ranger;
        software developer; chef; journalist; architect"""
    ),
    "hobby": _words(
        """chess; rock climbing; watercolour painting; bird watching; pottery; cycling; baking; knitting; sailing;
        origami; stargazing; hiking; playing the cello; woodworking; fishing; calligraphy; swimming; gardening;
        juggling; cooking"""
    ),
    "place": _words(
        """library; harbour; bakery; museum; railway station; botanical garden; lighthouse; theatre; market hall;
        swimming pool; town hall; observatory; aquarium; ferry terminal; school; hospital; castle; youth hostel;
        bookshop; brewery; cinema; sports club; cheese dairy; post office; zoo"""
    ),
    "quality": _words(
        """quiet; old; bright; narrow; famous; small; busy; modern; wooden; round; wide; simple; beautiful; cold; warm;
        secret; green; crowded; elegant; empty"""
    ),
    "colour": _words("red; blue; green; yellow; purple; orange; grey; brown; white; black; pink; turquoise"),
    "day": _words("Monday; Tuesday; Wednesday; Thursday; Friday; Saturday; Sunday"),
    "month": _words(
        """January; February; March; April; May; June; July; August; September; October; November; December"""
    ),
    "topic": _words(
        """photosynthesis; the water cycle; plate tectonics; supply and demand; the French Revolution; black holes;
        vaccines; recursion; the human heart; renewable energy; inflation; the Roman Empire; gravity; machine
        learning; the Silk Road; antibiotics; volcanoes; democracy; the immune system; electric cars; coral reefs;
        DNA; the industrial revolution; probability; jazz music; time management; public transport; the Renaissance;
        erosion; encryption; nutrition; sleep; earthquakes; the stock market; Buddhism; the printing press; tides;
        solar panels; magnetism; fermentation; sorting algorithms; climate change; migration of birds; the moon;
        lightning; glaciers; impressionism; databases; yoga; electricity; the nervous system; rainforests; the
        internet; human rights; photography; the Vikings; bees; nuclear power; poetry; budgeting; teamwork;
        meditation; the ozone layer; friction; evolution; operating systems; rivers; batteries; urban planning;
        compost; the Olympic Games; sound waves; enzymes; artificial intelligence; tea; comets; mental health;
        deserts; the theory of relativity; public speaking; chess openings; hash tables; soil; operas; cell
        division; first aid; compound interest; virtual reality; the Cold War; dinosaurs; acids and bases"""
    ),
    "problem": _words(
        """my laptop is very slow; my plants keep dying; I cannot fall asleep; my team misses its deadlines; my bicycle
        chain keeps falling off; I am nervous before interviews; my bread does not rise; my neighbour plays loud
        music; I forget people's names; my cat scratches the sofa; my code is hard to read; I spend too much money
        on food; my phone battery drains quickly; I have trouble focusing while studying; my garden is full of
        weeds; my back hurts after sitting; I want to learn a language but have little time; my students are bored;
        I get lost in new cities; my emails are too long; my soup is too salty; I feel tired in the afternoon; my
        shoes smell; I am afraid of flying; my child does not want to read"""
    ),
    "situation": _words(
        """a lighthouse keeper who finds a letter in a bottle; two friends who open a bakery on a train; a robot that
        learns to paint; a village where it never stops raining; a girl who can talk to clocks; the last bookshop on
        Earth; a dragon who is afraid of fire; a detective who loses her memory; a boy who builds a boat out of
        doors; a chess game between a king and a gardener; an island that moves every night; a violin that only
        plays sad songs; a cook who travels in time; a letter that arrives a hundred years late; a fox who runs a
        school; a mapmaker who draws a place that does not exist; an old pilot on her last flight; a town that
        forgets its own name; a shadow that runs away; a beekeeper who hears music in the hives"""
    ),
    "audience": _words(
        """a ten-year-old child; a beginner; a group of high school students; a busy manager; a new employee; my
        grandmother; an expert from another field; someone who has never heard of it; a journalist; a tourist; my
        little brother; a class of engineers; the members of a book club; a sceptical friend; a general audience"""
    ),
    "message": _words(
        """asking a landlord to repair the heating; thanking a colleague for help with a project; inviting neighbours
        to a summer party; declining an invitation to a wedding; asking a teacher for more time; reporting a lost
        suitcase to an airline; applying for a summer job at a museum; reminding a customer of an unpaid invoice;
        apologising for a late delivery; announcing a new opening time; asking a friend to look after a dog;
        complaining about a broken kettle; congratulating a friend on a new job; requesting a day off; recommending
        a former student; cancelling a dentist's appointment; proposing a weekly team meeting; asking for a refund
        of a concert ticket"""
    ),
    "product": _words(
        """electric kettle; hiking boots; desk lamp; rain jacket; espresso machine; folding bicycle; wooden puzzle;
        wireless headphones; garden hose; sleeping bag; bread knife; standing desk; water filter; travel pillow;
        toolbox; picture frame; phone charger; yoga mat; board game; winter coat"""
    ),
    "company": _words(
        """Harbour Tools; Nordlicht Energy; Blue Finch Travel; Stonebridge Foods; Kestrel Software; Maple Lane Books;
        Orbit Logistics; Clearwater Clinics; Tallgrass Farms; Brightside Insurance; Copper Kettle Cafe; Pine Street
        Dental; Alder Furniture; Moonrise Films; Quarry Sports; Silverleaf Garden Centre; Union Bike Works; Violet
        Print Shop"""
    ),
    "book": _words(
        """The Salt Road; Winter in Ostrava; A Field of Glass; The Clockmaker's Niece; Nine Bridges; The Paper Orchard;
        Letters from Varna; The Quiet Engine; Harvest of Stones; Under the Copper Sky; The Ferryman's Map; Blue
        Hour; The Last Beekeeper; A House of Reeds; The Cartographer's Wife; Low Tide; The Glass Harbour; Seven
        Winters"""
    ),
    "verb": _words(
        """count; filter; sort; merge; reverse; sum; validate; parse; format; split; find; remove; replace; convert;
        compare; group; rotate; shuffle; flatten; measure; check; load; update; select; encode"""
    ),
    "noun": _words(
        """words; scores; orders; users; prices; names; items; lines; numbers; records; points; files; events;
        messages; tasks; colors; dates; keys; weights; cities; products; grades; tokens; rows; letters"""
    ),
    "style": _words(
        """a short paragraph; three bullet points; a numbered list; one sentence; simple words; a friendly tone; a
        formal tone; a table; about a hundred words; the style of a newspaper article; a dialogue between two
        people; a poem of eight lines; a step-by-step guide; a short summary; an example from daily life"""
    ),
    "system": _words(
        """You are a helpful assistant.; You are a patient teacher who explains things simply.; You are a concise
        assistant. Answer in a few sentences.; You are an expert programmer.; You answer like a friendly librarian.;
        You are a careful assistant who thinks step by step.; You are a travel guide.; You are a customer support
        agent of a small shop.; You are a professional writer.; You are a science journalist."""
    ),
}
