"""What the everyday domain knows, as tables: one entry per line, fields separated by ` | `, alternatives by ` / `."""

# situation / other words for it | advice / other advice
PROBLEMS = """
my bike has a puncture / the tire of my bike is flat / my bicycle tire lost its air | Pump up the tire or patch the tube. / Repair the tube with a patch, or go to a bike shop.
the chain of my bike came off / my bicycle chain slipped off | Put the chain back on the gears and turn the pedals. / Put the chain back on, or ask a bike shop to repair it.
I burned my hand / I touched a hot pan and it hurts | Hold it under cold water for ten minutes. / Cool the burn with cold water.
I spilled milk on the table / there is juice on the floor / I knocked over a glass of water | Wipe it up with a cloth. / Take a towel and clean it up.
I have a cold / I am sneezing all day / my nose is blocked | Rest, drink warm tea and use a tissue. / Stay warm, drink tea and sleep a lot.
I cut my finger / my knee is bleeding / I have a small cut | Wash the cut and put a bandage on it. / Clean it with water and use a plaster.
my head hurts / I have a bad headache | Drink some water and rest in a quiet room. / Lie down in the dark and rest.
my stomach hurts / I have a stomach ache | Rest and drink warm tea. If it does not stop, see a doctor. / Lie down and drink some tea.
I have a sore throat / my throat hurts | Drink warm tea with honey. / Drink something warm and rest your voice.
I feel hot and ill / I think I have a fever / my forehead is very hot | Stay in bed, drink water and call a doctor if it gets worse. / Rest in bed and drink a lot of water.
my tooth aches / I broke a tooth | You should see a dentist. / Call the dentist soon.
my dog does not eat / my rabbit looks ill / my bird is hurt | Take it to the vet. / A vet can help your pet.
I cannot see anything in this dark room / the cellar is very dark | Turn on the light. / Use a lamp or a flashlight.
I am so thirsty / my mouth is dry | Drink a glass of water. / Have some water or juice.
I am hungry / my stomach growls | Eat something, for example bread or an apple. / Make yourself a sandwich.
I am tired / I can hardly keep my eyes open | You should rest or go to bed. / Take a nap or go to sleep early.
I am cold / I am freezing / my hands are cold | Put on a warm sweater and drink tea. / Wear gloves and a warm coat.
I am too warm / it is very hot today | Take off your jacket and drink cold water. / Open a window and drink water.
my clothes are wet / I got wet in the rain | Take them off and hang them up to dry. / Put on dry clothes and hang the wet ones in the sun.
I cannot find my keys / I lost my keys / I locked myself out | Look in your pockets. If they are gone, call a locksmith. / Ask a neighbor for help or call a locksmith.
my phone is empty / the battery of my phone is dead / my tablet does not turn on | Charge it with the cable. / Plug it into the charger.
I missed my train / the bus left without me | Wait for the next one. / Take the next one, or call a taxi.
I am lost / I do not know where I am | Look at a map or ask someone for the way. / Ask a police officer for help.
I smell smoke / the house is burning / there is a fire | Leave the house at once and call the fire department. / Go outside and call for help.
my brother is sad / my friend is crying / my sister looks unhappy | Ask what is wrong and listen. / Give a hug and listen kindly.
I broke a plate / I broke my friend's toy / I broke a window | Say that you are sorry and help to repair it. / Tell the truth and say sorry.
a man I do not know offers me candy / a stranger wants me to come along | Say no, go away and tell an adult. / Do not go with strangers. Tell your parents.
the soup burns my tongue / the tea is too hot | Wait until it cools down, or blow on it. / Let it cool for a few minutes.
I cannot fall asleep / I lie awake at night | Drink warm milk and read a quiet book. / Breathe slowly and think of something nice.
my desk is full of things / my room looks terrible / there are toys all over the floor | Tidy up and put everything in its place. / Clean it up, one thing at a time.
I have an exam soon / there is a test on Friday | Study a little every day and sleep well. / Read your notes and practice.
the leaves of my flower hang down / the soil of my plant is dry | Water it. / Give it some water.
my windows are dirty / there is mud on my shoes / there is a stain on my shirt | Wash it with soap and water. / Clean it with a wet cloth.
my fingers are sticky / my hands are dirty | Wash your hands with soap. / Wash them with soap and warm water.
I forgot an important date / I came too late / I shouted at my friend | Say that you are sorry. / Apologize and explain what happened.
water drips from the pipe / the toilet does not work / the tap does not stop dripping | Call a plumber. / A plumber can fix it.
the car makes a strange noise / my car broke down | Take it to a mechanic. / A mechanic at the garage can repair it.
my pencil is blunt / my pencil broke | Sharpen it. / Use a sharpener.
my computer is very slow / the screen does not react | Turn it off and on again. / Restart it.
the power went out / the lights do not work | Light a candle or use a flashlight, and check the fuse. / Check the fuse and wait.
I have nothing to do / I am bored / it is raining and I am bored | Read a book, draw a picture or play a game. / You could paint, bake or play a game.
I feel lonely / I have no friends here | Call a friend, or join a club and talk to people. / Talk to someone you like.
I am nervous / I am afraid of tomorrow / I am scared of the dark | Breathe slowly and talk to someone you trust. / Take a deep breath. A small light can help.
I am angry with my brother / I had a fight with my friend | Take a deep breath, then talk about it. / Calm down and talk with each other.
a bee stung me / a wasp stung my arm | Cool it with ice. / Put something cold on it.
my milk smells bad / the bread has green spots | Throw it away. / Do not eat it. Throw it in the bin.
I dropped a glass and it broke / there is broken glass on the floor | Sweep it up carefully and wear shoes. / Use a broom and do not touch it with bare hands.
my shoelace is open / my shoe came off | Stop and tie your shoe. / Tie it with a knot.
a button fell off my coat / there is a hole in my sock | Sew it with a needle and thread. / You need a needle and thread.
my hair is a mess / my hair is wet | Comb it, and dry it with a towel. / Use a towel and a brush.
I found a wallet / I found a phone in the street | Take it to the police or give it back to its owner. / Give it back to the owner.
my neighbor is too loud / the music next door is loud | Ask politely for quiet. / Talk to your neighbor in a friendly way.
I want to make friends / I am new in this school | Say hello, smile and ask a question. / Be kind and start to talk.
my bag is too heavy / I cannot carry the box | Take some things out or ask for help. / Ask a friend to carry it with you.
there is a spider in my room / a fly annoys me | Catch it with a glass and put it outside. / Open the window and let it out.
I got sunburn / my skin is red from the sun | Stay in the shade and use cool cream. / Cool your skin and stay out of the sun.
I cannot open the jar / the lid is stuck | Hold it under hot water and try again. / Ask someone strong to help.
the cake is burnt / I burned the toast | Cut off the black part or make a new one. / Bake a new one and set a timer.
I want to save money / I spend too much money | Write down what you spend and put some money in the bank. / Buy only what you need.
I want to learn to swim / I want to learn the piano | Take lessons and practice a little every day. / Find a teacher and practice.
"""

# task | tool / other tool
TOOLS = """
cut cloth / cut a string / cut hair / cut out a picture | scissors
put a nail into wood / hang up a clock / drive in a nail | a hammer and nails
clean up crumbs / sweep the path / sweep up leaves | a broom
clean a carpet | a vacuum cleaner
dig a bed for flowers / plant a tree / move sand | a shovel
open a tin of soup / open a tin | a can opener
stay dry in a storm / walk in the rain | an umbrella
eat pudding / eat yogurt / stir tea | a spoon
eat noodles / eat salad / pick up meat | a fork
slice bread / cut vegetables / spread butter | a knife
tidy your hair / make your hair smooth | a brush or a comb
clean your teeth | a toothbrush and toothpaste
write a letter / draw a line / sign a card | a pen
draw a picture / draw a sketch | a pencil
rub out a mistake / remove a pencil line | an eraser
measure a table / draw a straight line | a ruler
dry your hands / dry yourself after a bath | a towel
wash your hands / wash dishes | soap and water
see in the dark / light the cellar | a flashlight
tell the time | a clock or a watch
wake up early / get up at seven | an alarm clock
call your aunt / talk to someone far away | a phone
take a photo / take a picture of a bird | a camera
find the way / find a street | a map
climb up to a roof / reach a high shelf | a ladder
cut a branch / cut a board | a saw
turn a screw / fix a loose screw | a screwdriver
sew on a button / fix a torn shirt | a needle and thread
glue paper / stick two papers together | glue or tape
lock the door / open a locked door | a key
see yourself | a mirror
look at the stars / see the moon from near | a telescope
see very small things / look at a cell | a microscope
know how warm it is / check for a fever | a thermometer
weigh flour / know how heavy it is | a scale
carry books to school / carry your lunch | a bag
boil water / make tea | a kettle
fry an egg / fry fish | a pan
cook soup / cook noodles | a pot with water
bake bread / bake cookies | an oven
keep food cold / keep meat fresh / store butter | a fridge
wash clothes | a washing machine
iron a shirt / make a shirt smooth | an iron
water the flowers | a watering can
sleep in the forest / camp outside | a tent
row on a lake / cross a river | a boat
catch fish | a fishing rod
send a letter / post a card | an envelope and a stamp
pay in a shop / buy an ice cream | money
"""

# who / also | what they do / in other words | where
PEOPLE = """
a teacher / teachers | teach pupils / help children to learn | at a school
a doctor / doctors | treat ill people / make sick people healthy | in a hospital
a nurse / nurses | care for patients / help sick people | in a hospital
a dentist / dentists | look after our teeth / repair teeth | in a dental practice
a firefighter / firefighters | fight fires / save people from burning houses | at a fire station
a police officer / the police | catch criminals / keep the streets safe | at a police station
a mail carrier / mail carriers | bring the post / deliver letters | at a post office
a hairdresser / hairdressers | cut and wash hair / make new hairstyles | in a salon
a pilot / pilots | fly planes / steer an aircraft | in a plane
a bus driver / bus drivers | drive buses / take people through town | in a bus
a captain / captains | steer ships / command a ship | on a ship
a baker / bakers | bake bread / make rolls and cakes | in a bakery
a butcher / butchers | sell meat / cut meat | in a butcher shop
a farmer / farmers | grow grain and keep animals / grow vegetables | on a farm
a cook / cooks | prepare meals / make the food for guests | in a kitchen
a waiter / waiters | serve guests / bring food to the table | in a restaurant
a builder / builders | build houses / build walls | at a building site
a carpenter / carpenters | work with wood / make tables and chairs | in a workshop
a plumber / plumbers | repair pipes / fix taps and toilets | in homes
an electrician / electricians | repair lamps and wires / lay electric cables | in homes
a mechanic / mechanics | repair cars / fix engines | in a garage
a painter / painters | paint walls / paint pictures | in a studio
a musician / musicians | play music / play an instrument in a band | on a stage
a singer / singers | sing songs / sing on a stage | on a stage
a gardener / gardeners | plant flowers / look after gardens | in a garden
a vet / vets | treat sick animals / help ill pets | in an animal clinic
a tailor / tailors | sew clothes / make suits and dresses | in a workshop
a librarian / librarians | lend books / look after books | in a library
a judge / judges | decide in court / say who is right | in a court
an astronaut / astronauts | fly into space / travel to the stars | in a spaceship
a scientist / scientists | do experiments / find out new things | in a laboratory
a photographer / photographers | take photos / take pictures of people | in a studio
a writer / writers | write books / write stories | at a desk
a cleaner / cleaners | clean rooms / wash floors | in offices
a lifeguard / lifeguards | save swimmers / watch the swimmers | at a pool
"""

# need | place
PLACES = """
borrow a book / read in a quiet room | the library
post a parcel / get stamps / send a letter | the post office
get fresh rolls / buy a loaf of bread / buy cake | the bakery
buy food / buy milk and eggs | the supermarket
buy medicine / get cough drops | the pharmacy
catch a plane / fly to another country | the airport
catch a train / wait for a train | the train station
wait for the bus | the bus stop
learn to swim / swim in winter | the swimming pool
build a sand castle / collect shells | the beach
look at old things / see paintings / see dinosaur bones | the museum
watch a film / see a new movie | the cinema
watch a play | the theater
see elephants / look at wild animals / watch penguins | the zoo
be treated after an accident / have an operation | the hospital
have a broken tooth fixed | the dentist
hang up shirts / store trousers / put away a dress | the wardrobe
sleep at night / lie down | the bed
keep butter cold / store yogurt | the fridge
save money / get cash / keep money | the bank
throw away garbage / put old paper | the bin
wash the dishes | the sink
take a shower / brush my teeth | the bathroom
cook dinner / make lunch | the kitchen
park the car | the garage
play on swings / climb and slide | the playground
walk a dog / sit on a bench under trees | the park
pick mushrooms / see deer / find tall trees | the forest
see cows and pigs / ride a pony | the farm
eat out / have dinner without cooking | the restaurant
drink coffee with a friend | the cafe
get a haircut | the hairdresser
learn to read / meet other pupils | the school
stay for the night on a trip | the hotel
fill up the car | the gas station
report a thief | the police station
buy shoes / buy a jacket | the clothes shop
"""

# question / other question | answer / other answer
WHYS = """
Why do we need to brush teeth every day? / Why should I clean my teeth? | It keeps them clean and healthy. / Brushing removes food and germs.
Why should you use soap? / Why do people wash before they eat? | Soap removes dirt and germs. / It keeps us clean and healthy.
Why does a person carry an umbrella? / What is an umbrella good for? | It keeps you dry in the rain. / So that you do not get wet.
Why do people need sleep? / What is sleep good for? | The body rests and gets new energy. / We rest when we sleep.
Why does Grandpa wear glasses? / What are glasses for? | Glasses help people to see better. / With glasses he can see and read.
Why is salad good for you? / Why are vegetables good? | They have vitamins and keep you healthy. / They make you strong and healthy.
Why must cars wait at a red light? / What does a red light mean? | Red means stop, so that nobody gets hurt. / It means stop. It keeps people safe.
Why does a bird need wings? / What are wings good for? | Birds need wings to fly. / With wings it can fly.
Why does meat belong in the fridge? / What is a fridge good for? | The fridge keeps food cold and fresh. / Food stays fresh in the cold.
Why should I be polite? / Why do we say please? | It is kind and shows respect. / People are happy when you are polite.
Why do we wear seat belts? / What is a seat belt for? | A seat belt keeps you safe in an accident. / It protects you in the car.
Why do we wear a helmet? / What does a helmet do? | It protects your head. / It keeps your head safe when you fall.
Why do people wear coats? / What is a coat for? | A coat keeps you warm. / People wear coats against the cold.
Why do fish have fins? / What do fish use fins for? | Fish swim with their fins. / They need fins to swim.
Why does a cat have whiskers? | With whiskers a cat can feel its way in the dark. / Whiskers help it to feel.
Why do bees visit flowers? / What do bees look for in flowers? | They look for nectar to make honey. / Bees collect nectar and make honey.
Why do trees need rain? / Why do flowers need water? | Plants need water to grow. / Without water they dry out.
Why does ice melt? / What makes snow melt? | Ice melts when it gets warm. / The warm sun melts it.
Why is it dark at night? / Where is the sun at night? | At night the sun is on the other side of the earth. / The earth has turned away from the sun.
Why do we have a calendar? / What is a calendar for? | A calendar shows the days and months. / It tells us the date.
Why do we recycle paper? / Why should I recycle? | It saves trees and makes less trash. / Recycling is good for nature.
Why is smoking bad? | It harms the lungs. / It makes people ill.
Why do we cook meat? | Cooking kills germs and makes it soft. / Raw meat can make you sick.
Why do people keep dogs? / Why are dogs good pets? | Dogs are loyal friends. / A dog is a good friend and guards the house.
Why do we go to school? / What is school good for? | We learn to read, write and count. / At school we learn new things.
Why do leaves fall? / Why do trees lose leaves? | In autumn it gets cold and trees save water. / Trees rest in winter.
Why do people work? | People work to earn money. / They earn money and do something useful.
Why should I drink water? / Why is water important? | The body needs water to live. / Water keeps the body healthy.
Why should I do sports? / Why is running good? | Sports keep you fit and healthy. / Moving makes your body strong.
Why do babies cry? | Babies cry when they are hungry, tired or wet. / They cannot talk yet.
Why do cars need fuel? / Why do cars need gas? | The engine burns fuel to move the car. / Without fuel the engine stops.
Why do we lock the door? | So that no thief comes in. / It keeps the house safe.
What happens when water boils? / What does boiling water become? | It turns into steam. / Water becomes steam.
What happens when you heat ice? / What happens to a snowman in spring? | It melts and becomes water. / It melts.
What happens to water in the freezer? / What happens to a lake in a cold winter? | It freezes and becomes ice. / It turns to ice.
What happens to wood in a fire? / What happens when you hold paper into a flame? | It burns and turns to ash. / It burns.
What happens when an egg falls down? / What happens if a vase falls? | It breaks. / It breaks into pieces.
What happens to a plant without water? / What happens if you never water a flower? | It dries out and dies. / It dries up.
What happens when the sun goes down? | It gets dark and night begins. / The sky gets dark.
What happens to metal in the rain? | It can rust. / It gets rusty.
What happens if you eat too much candy? | Your stomach hurts and your teeth get bad. / You may feel sick.
What do you say in the morning? / How do you greet people in the morning? | Good morning! / You say good morning.
What do you say to a friend you meet? / How do you greet a friend? | Hello! / You say hello and smile.
What do you say at the end of a visit? / What do you say on the phone at the end? | Goodbye! / You say goodbye.
What do you say when you get a present? / What do you say when a person helps you? | Thank you! / You say thank you.
What do you say when you step on a foot? / What do you say after a mistake? | I am sorry. / You say sorry.
What do you say after a sneeze? | Bless you! / You say bless you.
What do you say before a meal? | Enjoy your meal! / You say enjoy your meal.
What do you say on a birthday? | Happy birthday! / You say happy birthday.
What do you say before you sleep? | Good night! / You say good night.
What do you say when you want something? | Please. / You say please.
"""

COUNTS = """
legs | a dog: four; a cat: four; a bird: two; a spider: eight; an ant: six; a snake: no; a fly: six; a person: two; a table: four; a horse: four; an octopus: eight arms and no
wheels | a bike: two; a car: four; a truck: more than four; a tricycle: three; a wheelbarrow: one; a bus: four or more; a scooter: two; a skateboard: four
eyes | a person: two; a cat: two; a spider: often eight; a fish: two
fingers | a hand: five; two hands: ten; a person: ten
sides | a triangle: three; a square: four; a rectangle: four; a hexagon: six
corners | a square: four; a triangle: three; a circle: no
days | a week: seven; a year: 365; a weekend: two; the month of June: thirty
hours | a day: twenty-four; half a day: twelve
minutes | an hour: sixty; half an hour: thirty
seconds | a minute: sixty
months | a year: twelve; half a year: six
seasons | a year: four
players | a football team: eleven; a game of chess: two
strings | a violin: four; a guitar: six
letters | the alphabet: twenty-six
wings | a bird: two; a butterfly: four; a bee: four
eggs | a dozen: twelve; half a dozen: six
legs altogether | two dogs: eight; three hens: six
shoes | a pair: two; two pairs: four
cents | a dollar: one hundred; a euro: one hundred
years | a century: one hundred; a decade: ten
centimeters | a meter: one hundred
"""
COLOURS = """
green: a leaf, grass in spring, a frog, a cucumber, a pea, a lime, lettuce, a pine tree
white: milk, a cloud, a swan, salt, rice, a polar bear, fresh snow
red: a tomato, a cherry, blood, a fire truck, a ripe strawberry, a ladybug, a stop sign
blue: the sea, a clear sky, a blueberry, jeans
yellow: the sun, a banana, butter, a chick, a ripe lemon, a sunflower
black: coal dust, the night sky, a crow, a tire, a panther
orange: a carrot, a pumpkin, a basketball, an orange
brown: chocolate, wood, a bear, soil, coffee, a potato
pink: a flamingo, a pig, cotton candy
gray: an elephant, a stone, a mouse, a rain cloud
"""
MIXES = "red and blue: purple; yellow and red: orange; yellow and blue: green; black and white: gray; red and white: pink; blue and red: purple"
# attribute | opposite attribute | from most to least
ORDERS = """
heavier | lighter | a ship, a truck, an elephant, a car, a horse, a table, a dog, a brick, a book, an apple, a letter, a leaf
bigger | smaller | a mountain, a house, a whale, an elephant, a cow, a sheep, a cat, a mouse, a bee, an ant
faster | slower | a rocket, a plane, a train, a car, a horse, a bike, a child, a duck, a turtle, a snail
taller | shorter | a mountain, a tower, a tree, a giraffe, a door, a chair, a flower, a blade of grass
hotter | colder | the sun, fire, boiling water, a cup of tea, a warm bath, cool water, snow, ice
louder | quieter | a rocket, thunder, a drum, a barking dog, a voice, a clock, a whisper
sweeter | less sweet | honey, chocolate, a ripe banana, an apple, bread, a lemon
harder | softer | a diamond, a stone, wood, an apple, bread, a pillow, cotton
longer | shorter | a river, a road, a train, a snake, a pencil, a worm, a grain of rice
older | younger | a grandmother, a mother, a teenager, a child, a baby
more expensive | cheaper | a house, a car, a bike, a book, a pencil
brighter | darker | the sun, a lamp, a candle, a star, a cave
"""
OPPOSITES = "hot: cold; big: small; up: down; left: right; day: night; happy: sad; fast: slow; open: closed; full: empty; wet: dry; early: late; loud: quiet; old: young; new: old; hard: soft; light: dark; heavy: light; high: low; long: short; rich: poor; clean: dirty; strong: weak; thick: thin; wide: narrow; near: far; good: bad; right: wrong; begin: end; first: last; inside: outside; push: pull; buy: sell; win: lose; sweet: sour; brave: afraid; awake: asleep; always: never; love: hate; front: back; top: bottom; question: answer; summer: winter; friend: enemy; north: south; east: west; true: false; easy: difficult; safe: dangerous; alive: dead; sharp: blunt; smooth: rough; deep: shallow; give: take; come: go; remember: forget; laugh: cry; before: after; more: less; same: different"
SYNONYMS = "big: large; fast: quick; happy: glad; sad: unhappy; small: little; smart: clever; pretty: beautiful; angry: mad; cold: chilly; hard: difficult; easy: simple; begin: start; end: finish; shout: yell; look: see; speak: talk; gift: present; sick: ill; tired: sleepy; rich: wealthy; scared: afraid; quiet: silent; strong: powerful; funny: amusing; home: house; road: street; kid: child; ship: boat; jump: leap; shut: close; buy: purchase; help: aid; nice: kind; brave: bold; huge: giant; wet: damp; rock: stone"
BODY = "see: our eyes; look at pictures: our eyes; smell a flower: our nose; hear music: our ears; listen: our ears; walk: our legs and feet; run: our legs; bite an apple: our teeth; taste: our tongue; hold a cup: our hands; think: our brain; breathe: our lungs; touch things: our fingers; speak: our mouth; wave: our hand; kick a ball: our foot; pump blood: our heart"
WEAR = "our feet: shoes and socks; cold hands: gloves; the head: a hat; the neck: a scarf; the eyes in the sun: sunglasses; the legs: trousers; the finger: a ring; the waist: a belt; the wrist: a watch; the body in bed: pajamas; cold feet: warm socks"
OCCASIONS = "when it is snowing: a warm coat, boots and gloves; in the sun: a hat and sunscreen; at the pool: a swimsuit; on a bike: a helmet; in the rain: a raincoat and boots; at a wedding: a nice dress or a suit; in bed: pajamas; on a hike: good shoes; on a hot day: a T-shirt and shorts; when it is cold: a scarf, a hat and a warm coat; in the kitchen: an apron"
ANIMALS = "barks: a dog; meows: a cat; moos: a cow; neighs: a horse; quacks: a duck; roars: a lion; has a long neck: a giraffe; has a trunk: an elephant; has a shell: a turtle; carries its house: a snail; has stripes: a zebra; has a pouch: a kangaroo; has a hump: a camel; gives milk: a cow; gives wool: a sheep; lays eggs: a hen; makes honey: a bee; spins a web: a spider; builds dams: a beaver; hops and croaks: a frog; has eight legs: a spider; sleeps upside down: a bat; swims in cold seas: a penguin; is the biggest animal: the blue whale; is called the king of animals: the lion; can fly at night: an owl; eats bananas and climbs: a monkey; changes its color: a chameleon; has spines: a hedgehog"
YOUNG = "dog: puppy; cat: kitten; cow: calf; horse: foal; sheep: lamb; pig: piglet; duck: duckling; hen: chick; lion: cub; bear: cub; goat: kid; frog: tadpole; deer: fawn; kangaroo: joey; swan: cygnet"
HOMES = "fish: in water; birds: in nests; bees: in a hive; bears: in caves; rabbits: in burrows; dogs: in a kennel or a house; horses: in a stable; pigs: in a sty; whales: in the sea; camels: in the desert; penguins: on the ice; monkeys: in the jungle; squirrels: in trees; ants: in an anthill; cows: in a barn; frogs: near a pond; spiders: in webs"
FOOD = "dogs: meat and bones; cats: fish and meat; cows: grass; horses: hay and grass; rabbits: carrots and grass; bears: honey, fish and berries; birds: seeds and worms; frogs: flies; lions: meat; monkeys: fruit; mice: cheese and seeds; squirrels: nuts; pandas: bamboo; sharks: fish; caterpillars: leaves; hens: corn and seeds"
MADE_OF = "ice: frozen water; a book: paper; a window: glass; a table: wood; a tire: rubber; a sweater: wool; a coin: metal; a wall: bricks or stone; bread: flour, water and yeast; butter: milk; cheese: milk; a cake: flour, eggs, butter and sugar; paper: wood; a pot: metal; shoes: leather; jam: fruit and sugar; a snowman: snow; wine: grapes; a T-shirt: cotton; a candle: wax; chocolate: cocoa and sugar; an omelet: eggs; a salad: lettuce, tomatoes and oil; pancakes: flour, milk and eggs; juice: fruit; glass: sand; a nest: twigs and grass"
GROUPS = {
    "a yellow fruit": ["a banana", "a lemon", "a pineapple"], "a red fruit": ["an apple", "a cherry", "a strawberry"], "an orange vegetable": ["a carrot", "a pumpkin"],
    "a green vegetable": ["a cucumber", "a pea", "broccoli"], "an animal with wings": ["a bird", "a bee", "a bat"], "an animal that lives in water": ["a fish", "a whale", "a crab"],
    "a farm animal": ["a cow", "a pig", "a hen"], "a pet": ["a dog", "a cat", "a rabbit"], "a wild animal": ["a lion", "a wolf", "a bear"], "an insect": ["an ant", "a bee", "a fly"],
    "something hot": ["fire", "the sun", "tea"], "something cold": ["ice", "snow", "a fridge"], "something round": ["a ball", "a wheel", "the sun"], "something soft": ["a pillow", "wool", "a blanket"],
    "something sweet": ["honey", "sugar", "cake"], "something sour": ["a lemon", "vinegar"], "a thing in a kitchen": ["a pot", "a stove", "a sink"], "a thing in a bathroom": ["a towel", "soap", "a shower"],
    "a thing in a classroom": ["a desk", "a book", "a blackboard"], "a thing with wheels": ["a car", "a bike", "a bus"], "a thing to read": ["a book", "a newspaper", "a letter"], "a thing that flies": ["a plane", "a bird", "a kite"],
    "a sport": ["football", "tennis", "swimming"], "a game for children": ["tag", "hide and seek", "chess"], "an instrument": ["a piano", "a drum", "a violin"], "a drink": ["water", "milk", "tea"],
    "a hot drink": ["tea", "coffee", "cocoa"], "a breakfast food": ["bread", "eggs", "cereal"], "a healthy food": ["an apple", "a carrot", "salad"], "a dessert": ["ice cream", "cake", "pudding"],
    "a piece of furniture": ["a chair", "a bed", "a table"], "a tool": ["a hammer", "a saw", "a shovel"], "a part of the body": ["a hand", "a foot", "the nose"], "a kind of weather": ["rain", "snow", "sunshine"],
    "something to wear in winter": ["a scarf", "gloves", "boots"], "something to take to a picnic": ["a blanket", "sandwiches", "fruit"], "something to take on a journey": ["clothes", "a toothbrush", "a map"],
    "a good present": ["a book", "flowers", "a game"], "something to do in the rain": ["read a book", "play a game", "bake a cake"], "something to do in the sun": ["go swimming", "play football", "have a picnic"],
    "a big city": ["London", "Paris", "Tokyo"], "a country": ["France", "Japan", "Egypt"], "a planet": ["Mars", "Venus", "the earth"], "a flower": ["a rose", "a tulip", "a daisy"], "a tree": ["an oak", "a pine", "a birch"],
}
CALENDAR = "the season with snow: winter; the warmest season: summer; the season after winter: spring; the season before winter: autumn; the month after January: February; the month before December: November; the start of the year: January; the end of the year: December; the day after Saturday: Sunday; the day before Tuesday: Monday; the middle of the week: Wednesday; the last school day of the week: Friday; the time when the sun sets: the evening; the time of the moon and stars: the night; the meal in the morning: breakfast; the meal at noon: lunch; the meal in the evening: dinner; the month of Christmas: December; the day after Thursday: Friday; the day before Sunday: Saturday"
HOW_TO = """
boil potatoes / cook potatoes | Put them in a pot with water and boil them for twenty minutes.
make tea | Boil water and pour it over the tea leaves. Wait three minutes.
make toast | Put a slice of bread in the toaster. Spread butter on it.
make a salad | Wash the lettuce, cut some tomatoes and add oil.
fry an egg | Heat some butter in a pan and crack the egg into it.
boil eggs | Put them in boiling water for five to ten minutes.
make a cheese sandwich / make a sandwich with ham | Take two slices of bread, spread butter on them and put the filling in between.
cook noodles / cook spaghetti | Boil a pot of water, add salt and cook them for ten minutes.
make lemonade | Mix lemon juice, water and sugar.
bake cookies | Mix flour, butter, sugar and eggs. Bake them in the oven.
wash my hands | Use warm water and soap, then dry them with a towel.
plant a seed / grow a flower | Put the seed in soil, water it and give it light.
tie a shoe | Cross the laces, make two loops and pull them tight.
cross the street | Stop, look left and right, and walk when it is safe.
make a bed | Pull the sheet straight and put the pillow and the blanket on top.
write a letter | Begin with Dear and the name, write your news and sign it.
clean a table | Wipe it with a wet cloth.
build a snowman | Roll three big balls of snow and put a carrot in as the nose.
keep food fresh / keep cheese fresh | Put it in the fridge. Cold food stays fresh longer.
learn new words | Write them down and repeat them every day.
be a good friend | Be kind, listen and help.
stay healthy | Eat fruit and vegetables, move a lot and sleep enough.
wake up on time | Set an alarm and go to bed early.
calm a baby | Hold it in your arms and sing softly.
wrap a present | Fold paper around it and close it with tape.
save water | Turn off the tap and take short showers.
"""
