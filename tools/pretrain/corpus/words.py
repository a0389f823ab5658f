"""The vocabulary that the generators share: plain words a child knows, with the few facts about each that the other
modules ask for. Kept as data, so that a sentence pattern never has to carry its own word list."""

GIRLS = "Lily Mia Anna Zoe Sara Ella Ruby Nora Ivy Lucy Rosa Clara Maya Jane Kate Emma Grace Holly Daisy Pia Tara Wendy June Alma Vera".split()
BOYS = "Tom Max Ben Sam Tim Leo Jack Finn Oscar Hugo Owen Noah Eli Adam Paul Mark Peter Fred Joe Carl Ravi Omar Kofi Luis Theo".split()
NAMES = GIRLS + BOYS

# animal: (sound verb, home, food, legs, covering)
ANIMALS = {
    "dog": ("barks", "a kennel", "bones", 4, "fur"),
    "cat": ("meows", "a house", "fish", 4, "fur"),
    "cow": ("moos", "a barn", "grass", 4, "hair"),
    "horse": ("neighs", "a stable", "hay", 4, "hair"),
    "sheep": ("bleats", "a field", "grass", 4, "wool"),
    "pig": ("oinks", "a sty", "corn", 4, "skin"),
    "duck": ("quacks", "a pond", "weeds", 2, "feathers"),
    "hen": ("clucks", "a coop", "seeds", 2, "feathers"),
    "owl": ("hoots", "a tree", "mice", 2, "feathers"),
    "lion": ("roars", "the savanna", "meat", 4, "fur"),
    "frog": ("croaks", "a pond", "flies", 4, "skin"),
    "bee": ("buzzes", "a hive", "nectar", 6, "hair"),
    "mouse": ("squeaks", "a hole", "cheese", 4, "fur"),
    "wolf": ("howls", "a den", "meat", 4, "fur"),
    "bear": ("growls", "a cave", "honey", 4, "fur"),
    "snake": ("hisses", "a burrow", "mice", 0, "scales"),
    "crow": ("caws", "a nest", "seeds", 2, "feathers"),
    "fish": ("bubbles", "the sea", "plants", 0, "scales"),
    "rabbit": ("thumps", "a burrow", "carrots", 4, "fur"),
    "elephant": ("trumpets", "the savanna", "leaves", 4, "skin"),
    "monkey": ("chatters", "the jungle", "bananas", 2, "fur"),
    "spider": ("creeps", "a web", "flies", 8, "hair"),
    "ant": ("marches", "a hill", "crumbs", 6, "a shell"),
    "goat": ("bleats", "a farm", "leaves", 4, "hair"),
    "penguin": ("honks", "the ice", "fish", 2, "feathers"),
    "fox": ("yelps", "a den", "rabbits", 4, "fur"),
    "parrot": ("talks", "the jungle", "fruit", 2, "feathers"),
    "turtle": ("snaps", "a pond", "plants", 4, "a shell"),
    "squirrel": ("chirps", "a tree", "nuts", 4, "fur"),
    "donkey": ("brays", "a farm", "hay", 4, "hair"),
}
YOUNG = {"dog": "puppy", "cat": "kitten", "cow": "calf", "horse": "foal", "sheep": "lamb", "pig": "piglet", "duck": "duckling",
         "hen": "chick", "lion": "cub", "bear": "cub", "goat": "kid", "frog": "tadpole", "owl": "owlet", "fox": "cub"}
# thing: (usual colour, kind)
FOODS = {
    "apple": ("red", "fruit"), "banana": ("yellow", "fruit"), "orange": ("orange", "fruit"), "lemon": ("yellow", "fruit"),
    "grape": ("purple", "fruit"), "cherry": ("red", "fruit"), "pear": ("green", "fruit"), "peach": ("pink", "fruit"),
    "plum": ("purple", "fruit"), "carrot": ("orange", "vegetable"), "pea": ("green", "vegetable"), "bean": ("green", "vegetable"),
    "onion": ("white", "vegetable"), "potato": ("brown", "vegetable"), "tomato": ("red", "vegetable"), "cabbage": ("green", "vegetable"),
    "pumpkin": ("orange", "vegetable"), "corn": ("yellow", "vegetable"), "bread": ("brown", "food"), "rice": ("white", "food"),
    "cheese": ("yellow", "food"), "cake": ("brown", "food"), "soup": ("red", "food"), "egg": ("white", "food"), "honey": ("gold", "food"),
    "milk": ("white", "drink"), "water": ("clear", "drink"), "juice": ("orange", "drink"), "tea": ("brown", "drink"),
}
THINGS = ("ball book car hat star tree cup box bell kite drum lamp spoon chair table door key coat shoe ring rope boat train "
          "doll clock pen bag bed brush bucket candle coin flag flute glove hammer jar ladder map mirror nail pillow plate rug "
          "saw scarf shell sock stone tent torch towel vase wagon whistle window basket blanket button card feather letter").split()
MEALS = ["soup", "rice", "bread", "cake", "potatoes", "eggs", "beans", "pancakes", "corn", "pumpkin pie"]
# Names, animals and things that the story teacher knows well: its own favourites, minus the two it would always choose.
STORY_GIRLS = "Mia Anna Sara Lucy Emma Jane Kate Grace Daisy Molly Ella Amy Sally Jenny Lisa Lily".split()
STORY_BOYS = "Tom Max Ben Sam Jack Leo Tim Mark Peter Fred Joe Adam Bob Billy Johnny Timmy".split()
STORY_ANIMALS = "dog cat bird frog rabbit bear duck mouse fox lion fish turtle monkey squirrel cow horse pig owl elephant bee".split()
STORY_THINGS = "ball book hat kite doll car boat box cup drum bell flower blanket coat scarf balloon truck train bike crayon".split()
STORY_PLACES = "park beach forest garden farm zoo lake river library market".split()
COLOURS = "red blue green yellow orange purple pink brown black white gray gold".split()
PLACES = "park school farm beach forest garden kitchen library market museum river hill lake village castle harbor station meadow bakery zoo".split()
FEELINGS = "happy sad proud tired angry excited scared calm lonely curious grateful surprised hungry sleepy brave shy".split()
SIZES = "big small tiny huge tall short long little".split()
WEATHER = "sunny rainy windy snowy cloudy foggy warm cold stormy".split()
OPPOSITES = {"hot": "cold", "big": "small", "up": "down", "day": "night", "fast": "slow", "happy": "sad", "open": "closed", "wet": "dry",
             "full": "empty", "old": "young", "hard": "soft", "light": "dark", "early": "late", "near": "far", "high": "low", "left": "right",
             "loud": "quiet", "clean": "dirty", "strong": "weak", "rich": "poor", "thick": "thin", "sweet": "sour", "rough": "smooth",
             "first": "last", "long": "short", "inside": "outside", "push": "pull", "buy": "sell", "win": "lose", "laugh": "cry",
             "begin": "end", "asleep": "awake", "safe": "dangerous", "true": "false", "kind": "mean", "brave": "scared"}
JOBS = {"baker": ("bakes bread", "a bakery", "an oven"), "doctor": ("helps sick people", "a hospital", "a thermometer"),
        "teacher": ("teaches children", "a school", "a book"), "farmer": ("grows food", "a farm", "a tractor"),
        "pilot": ("flies planes", "an airport", "a plane"), "sailor": ("sails ships", "the sea", "a ship"),
        "painter": ("paints pictures", "a studio", "a brush"), "cook": ("makes meals", "a kitchen", "a pan"),
        "gardener": ("grows flowers", "a garden", "a spade"), "carpenter": ("builds things from wood", "a workshop", "a hammer"),
        "tailor": ("makes clothes", "a shop", "a needle"), "singer": ("sings songs", "a stage", "a microphone"),
        "fisherman": ("catches fish", "a boat", "a net"), "firefighter": ("puts out fires", "a fire station", "a hose"),
        "librarian": ("lends books", "a library", "a card"), "postman": ("brings letters", "a post office", "a bag"),
        "dentist": ("looks after teeth", "a clinic", "a small mirror"), "driver": ("drives a bus", "the road", "a bus"),
        "nurse": ("cares for patients", "a hospital", "a bandage"), "clockmaker": ("repairs clocks", "a workshop", "a tiny screwdriver")}
TOOLS = {"hammer": "hit nails", "saw": "cut wood", "spoon": "eat soup", "knife": "cut bread", "broom": "sweep the floor", "key": "open a lock",
         "umbrella": "stay dry in the rain", "pen": "write", "brush": "paint", "needle": "sew", "ladder": "climb up high", "cup": "drink",
         "bed": "sleep", "lamp": "see in the dark", "clock": "tell the time", "map": "find the way", "rope": "tie things", "soap": "wash",
         "towel": "dry yourself", "boat": "cross the water", "kettle": "boil water", "oven": "bake", "scissors": "cut paper", "bucket": "carry water",
         "pillow": "rest your head", "telescope": "look at the stars", "basket": "carry fruit", "shovel": "dig a hole", "whistle": "make a loud sound"}
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
SEASONS = {"spring": "flowers open", "summer": "the days are long and hot", "autumn": "the leaves fall", "winter": "snow may fall"}
NUMBERS = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen "
           "nineteen twenty").split()
CAPITALS = {"France": "Paris", "Spain": "Madrid", "Italy": "Rome", "Germany": "Berlin", "Japan": "Tokyo", "Egypt": "Cairo", "Greece": "Athens",
            "Norway": "Oslo", "Sweden": "Stockholm", "Poland": "Warsaw", "Portugal": "Lisbon", "Kenya": "Nairobi", "Peru": "Lima", "Cuba": "Havana",
            "Ireland": "Dublin", "Austria": "Vienna", "Finland": "Helsinki", "China": "Beijing", "India": "New Delhi", "Canada": "Ottawa"}
PARTS = {"eyes": "see", "ears": "hear", "nose": "smell", "tongue": "taste", "hands": "hold things", "legs": "walk", "teeth": "chew",
         "lungs": "breathe", "fingers": "point", "feet": "stand"}
PLAIN_FACTS = [
    ("What color is the sky on a clear day?", "The sky is blue."), ("What color is grass?", "Grass is green."), ("What color is snow?", "Snow is white."),
    ("What do we call frozen water?", "Frozen water is ice."), ("What falls from clouds when it is warm?", "Rain falls from clouds."),
    ("What shines in the sky at night?", "The moon and the stars shine at night."), ("What gives us light in the day?", "The sun gives us light."),
    ("How many days are in a week?", "There are seven days in a week."), ("How many months are in a year?", "There are twelve months in a year."),
    ("How many hours are in a day?", "There are twenty-four hours in a day."), ("How many minutes are in an hour?", "There are sixty minutes in an hour."),
    ("How many sides does a triangle have?", "A triangle has three sides."), ("How many sides does a square have?", "A square has four sides."),
    ("What shape is a wheel?", "A wheel is a circle."), ("What do plants need to grow?", "Plants need water, light and air."),
    ("Where do fish live?", "Fish live in water."), ("What do birds use to fly?", "Birds use their wings to fly."), ("What do cows give us?", "Cows give us milk."),
    ("What do bees make?", "Bees make honey."), ("What do hens lay?", "Hens lay eggs."), ("What is bread made from?", "Bread is made from flour and water."),
    ("What is paper made from?", "Paper is made from wood."), ("What is glass made from?", "Glass is made from sand."), ("What is cheese made from?", "Cheese is made from milk."),
    ("Where does the sun rise?", "The sun rises in the east."), ("Where does the sun set?", "The sun sets in the west."), ("What do you wear on your feet?", "You wear shoes on your feet."),
    ("What do you wear on your head?", "You wear a hat on your head."), ("What do you use when it rains?", "You use an umbrella when it rains."), ("What melts in the sun?", "Ice melts in the sun."),
    ("What color do you get from red and yellow?", "Red and yellow make orange."), ("What color do you get from blue and yellow?", "Blue and yellow make green."),
    ("What color do you get from red and blue?", "Red and blue make purple."), ("What is the largest animal in the sea?", "The blue whale is the largest animal in the sea."),
    ("What is the tallest animal?", "The giraffe is the tallest animal."), ("Which animal is known as the king of the jungle?", "The lion is known as the king of the jungle."),
    ("What do we breathe?", "We breathe air."), ("What pulls things down to the ground?", "Gravity pulls things down."), ("What planet do we live on?", "We live on the Earth."),
    ("What goes around the Earth?", "The moon goes around the Earth."), ("What is at the center of our solar system?", "The sun is at the center."),
    ("What do you call a baby cat?", "A baby cat is a kitten."), ("What do you call a house made of snow?", "A house made of snow is an igloo."),
    ("What has hands but cannot clap?", "A clock has hands but cannot clap."), ("What do caterpillars turn into?", "Caterpillars turn into butterflies."),
    ("What do you do with a book?", "You read a book."), ("What do you use to brush your teeth?", "You use a toothbrush."), ("What is the opposite of yes?", "The opposite of yes is no."),
]


def article(noun: str) -> str:
    return ("an " if noun[0].lower() in "aeiou" else "a ") + noun


def plural(noun: str) -> str:
    irregular = {"mouse": "mice", "sheep": "sheep", "fish": "fish", "wolf": "wolves", "goose": "geese", "knife": "knives", "scissors": "scissors",
                 "bread": "bread", "rice": "rice", "milk": "milk", "water": "water", "cheese": "cheese", "honey": "honey", "corn": "corn"}
    if noun in irregular:
        return irregular[noun]
    if noun.endswith(("s", "x", "ch", "sh", "tomato", "potato")):
        return noun + "es"
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + "s"


def serving(food: str) -> str:
    """The food as one buys or cooks it: `apples`, `soup`."""
    return plural(food) if FOODS[food][1] in ("fruit", "vegetable") or food == "egg" else food
