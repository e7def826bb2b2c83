//! Machines, grinders and the coffee that goes through them.

use super::{About, Scenario};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        inbox: "support",
        about: About::Product,
        weight: 10,
        tags: &["descaling"],
        subjects: &[
            "Descale light will not go off",
            "How do I descale the {product}?",
            "{product}: flow gets slower every week",
        ],
        openings: &[
            "I ran the descaling programme on my {product} twice and the orange light is still on. What am I missing?",
            "We have very hard water in {city}. How often should I descale the {product}, and may I use vinegar?",
            "The {product} takes nearly a minute for a shot that took thirty seconds last month. Same beans, same grind.",
        ],
        answers: &[
            "The light goes off only after the rinse has run with a full tank: fill it to the line, start the rinse, and do not stop it half-way. Please never use vinegar, it attacks the seals.",
            "That sounds like scale in the valve. Use one sachet of our Descaling Kit in a litre of water, run it through in four steps with ten minutes between them, then rinse with two full tanks.",
        ],
        follow_ups: &[
            "Did that. The light is off, but the coffee tastes of citrus now. Is that safe?",
            "Flow is better, not what it was. Should I repeat it?",
        ],
        endings: &[
            "It is harmless citric acid. One more tank of fresh water through the group and the steam wand takes the taste away.",
            "Once more is fine. If it stays slow after that, the screen needs changing; a Gasket and Screen Kit is on its way to you.",
        ],
    },
    Scenario {
        inbox: "support",
        about: About::Product,
        weight: 9,
        tags: &["grinder"],
        subjects: &[
            "Grinder sounds rough",
            "Fieldmill clumps badly",
            "What grind setting for espresso?",
        ],
        openings: &[
            "My Fieldmill started to make a rough noise at fine settings. It sounds like metal on metal when empty.",
            "The grounds come out in clumps and a good deal stays in the chute. Is that static, or is something worn?",
            "New to all this: where should I start on the dial for espresso with Harbour Blend?",
        ],
        answers: &[
            "A light chirp at the finest settings means the burrs touch. Empty the hopper, turn it running to the point where it just chirps, and take that as zero; espresso begins about eight clicks above.",
            "Clumps are mostly static. A single drop of water on the beans before grinding helps, and so does a brush through the chute once a week.",
        ],
        follow_ups: &[
            "Zeroed it as you said. It chirps two clicks higher than before. Are the burrs worn after one year?",
            "Much better. How do I get at the upper burr to clean it?",
        ],
        endings: &[
            "Two clicks in a year is normal wear. Burrs last for about 500 kg of coffee, so you have many years left.",
            "Lift the hopper, turn the ring to the dot and pull. Brush only, no water. The ring clicks when it is back in place.",
        ],
    },
    Scenario {
        inbox: "support",
        about: About::Product,
        weight: 8,
        tags: &["coffee"],
        subjects: &["Shots taste sour", "Bitter espresso, help", "Harbour Blend tastes different"],
        openings: &[
            "Whatever I do, my shots from the {product} taste sour. 18 g in, 36 g out, about 18 seconds.",
            "The last bag of Harbour Blend is far more bitter than the ones before. Did you change the roast?",
            "I cannot get a decent crema with Moorland Decaf. Is the bag too old, or is it me?",
        ],
        answers: &[
            "18 seconds is fast. Grind finer until the same weight takes 26 to 30 seconds, and change nothing else meanwhile. Sour almost always means too little extraction.",
            "The roast is the same, but the bag may be fresher than you are used to. Let it rest for ten days after the roast date and grind a little coarser.",
        ],
        follow_ups: &[
            "28 seconds now and much rounder. Slightly bitter at the end, what is the next thing to change?",
            "The roast date is five days ago. I will wait a week. Does freezing half of it make sense?",
        ],
        endings: &[
            "Lower the temperature by one degree or stop two grams earlier. One change at a time, and taste after each.",
            "Freezing works well in portions of a week, airtight, and thawed before the bag is opened.",
        ],
    },
    Scenario {
        inbox: "repairs",
        about: About::Product,
        weight: 9,
        tags: &["warranty", "fault"],
        subjects: &[
            "{product} does not heat",
            "Leak under the {product}",
            "{product} trips the fuse",
        ],
        openings: &[
            "My {product} switches on, the light blinks, but it stays cold. It is fourteen months old.",
            "There is a puddle under the {product} every morning. The tank is dry at the outside, so it comes from within.",
            "As soon as the {product} gets warm the fuse for the kitchen goes. Nothing else on that circuit does it.",
        ],
        answers: &[
            "Thank you for describing it so well. Please unplug it and do not use it until we have seen it. It is within the two-year warranty, so the repair costs you nothing. Could you send the serial number from under the drip tray?",
            "This is most likely the seal of the boiler. It is a workshop job: we collect the machine, and it is back within ten working days.",
        ],
        follow_ups: &[
            "The serial number is on the photo. I still have the original box. When can it be collected?",
            "Ten days without coffee is long. Is there a machine on loan?",
        ],
        endings: &[
            "The collection is booked for Thursday. Empty the tank, take off the drip tray and put the label over the old one.",
            "Your machine is repaired and has run for two hours on the bench. We changed the heating element and the seals; it leaves today.",
        ],
    },
    Scenario {
        inbox: "repairs",
        about: About::Product,
        weight: 5,
        tags: &["spare-parts"],
        subjects: &[
            "Spare part for {product}",
            "Need a new gasket",
            "Is the steam wand tip available?",
        ],
        openings: &[
            "The group gasket of my {product} is hard and leaks around the portafilter. Which one do I order, and can I change it myself?",
            "I lost the steam wand tip of my {product}. Is there a replacement, the one with four holes?",
            "Do you still sell the drip tray for the first {product}? Mine has a crack.",
        ],
        answers: &[
            "It is the Gasket and Screen Kit, and you need only a flat screwdriver and ten minutes. The steps with pictures are in our help article on gaskets.",
            "We keep parts for ten years. Please tell me the first four digits of the serial number, so that you get the one that fits.",
        ],
        follow_ups: &[
            "The first four digits are 2207. Can I pay by invoice?",
            "Got the kit. The old gasket crumbles, how do I get the rest out?",
        ],
        endings: &[
            "The part is reserved for you; the payment link is valid for a week.",
            "Warm the group for ten minutes, switch off, and lift the rest out with a wooden skewer. Never metal on the sealing face.",
        ],
    },
    Scenario {
        inbox: "support",
        about: About::Product,
        weight: 7,
        tags: &["subscription"],
        subjects: &[
            "Pause my coffee subscription",
            "Subscription charged twice",
            "Change my monthly coffee",
        ],
        openings: &[
            "I will be away for six weeks. Can I pause the monthly box and keep my price?",
            "My card shows two payments for this month's box, but only one bag arrived in {city}.",
            "Could you change my subscription from Harbour Blend to Orchard Filter Roast from next month on?",
        ],
        answers: &[
            "Of course. The pause is set; the next box ships in the week you are back, at the same price.",
            "I see both payments. One is only a reservation and drops off your card by itself within seven days. If it does not, tell me and we give it back at once.",
        ],
        follow_ups: &[
            "Thanks. Can I also skip a single month on my own?",
            "It is eight days now and both are still there.",
        ],
        endings: &[
            "Yes: under Account, Subscription, Skip next box, until three days before it ships.",
            "I have asked billing to return the second payment today. You get a confirmation by mail.",
        ],
    },
    Scenario {
        inbox: "support",
        about: About::Product,
        weight: 5,
        tags: &["account"],
        subjects: &["Cannot sign in", "Change the e-mail of my account", "Delete my data please"],
        openings: &[
            "The link to reset my password never arrives. I looked in the spam folder too.",
            "I changed jobs and cannot read my old address any more. Please move my account to this one.",
            "Please delete my account and everything you store about me.",
        ],
        answers: &[
            "Your account uses an older address. For your safety I can change it once you tell me the number of your last order and its postcode.",
            "We delete accounts within 30 days of the request. Invoices have to be kept for the legal period, everything else goes. Shall I start?",
        ],
        follow_ups: &["Both are in this mail. The order was a {product}.", "Yes please, go ahead."],
        endings: &[
            "The address is changed and you can sign in with it now.",
            "The deletion is under way; you get one last mail when it is complete.",
        ],
    },
    Scenario {
        inbox: "support",
        about: About::Product,
        weight: 5,
        tags: &["question"],
        subjects: &[
            "Which grinder for the {product}?",
            "Does the {product} work on 110 V?",
            "Difference between One and Duo",
        ],
        openings: &[
            "I have the {product} and a budget of 400. Is the Fieldmill enough, or should I wait for the Pro?",
            "We are moving to Boston. Can I take my {product} along, or will it need a transformer?",
            "In plain words: what does the Duo do that the One does not? I make four milk drinks each morning.",
        ],
        answers: &[
            "For espresso at home the Fieldmill is enough. The Pro is quicker and keeps less coffee in the chute, which matters when you change beans often.",
            "The heating elements differ by region, so a transformer would have to be very large. We exchange machines for moving customers at a fixed price.",
        ],
        follow_ups: &[
            "That helps. Is there a demo somewhere near {city}?",
            "What is the fixed price for the {product}?",
        ],
        endings: &[
            "There is a list of shops with demo machines on our site; the nearest to {city} has all three.",
            "It is 180 including both ways, and the warranty goes on.",
        ],
    },
    Scenario {
        inbox: "support",
        about: About::Product,
        weight: 4,
        tags: &["feedback"],
        subjects: &[
            "Love the {product}",
            "A suggestion for the {product}",
            "Disappointed with the {product}",
        ],
        openings: &[
            "No problem for once, just praise: the {product} is the best thing in our kitchen, and {agent} was wonderful last month.",
            "Please make the water tank of the {product} fillable from the front. Under our cupboards it is a weekly wrestling match.",
            "For the price I expected more of the {product}. The finish scratches if one looks at it.",
        ],
        answers: &[
            "Thank you, that made our morning. I have read it out to the whole team.",
            "Thank you for writing it down. I passed it on to the design team with your words; they do read these.",
        ],
        follow_ups: &[
            "Happy to test a prototype if you ever need someone in {city}!",
            "Appreciate the honest answer.",
        ],
        endings: &[
            "I put you on the list for testers. There is nothing to do until somebody writes.",
            "And we appreciate honest mail. Have a good week.",
        ],
    },
];
