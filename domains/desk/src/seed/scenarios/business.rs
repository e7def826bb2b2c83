//! Invoices, wholesale, and the mail that only a few may read.

use super::{About, Scenario};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        inbox: "billing",
        about: About::Order,
        weight: 7,
        tags: &["invoice"],
        subjects: &[
            "Invoice for {order}",
            "VAT number missing on invoice",
            "Copy of invoice {order}",
        ],
        openings: &[
            "Our accountant needs the invoice for {order} with our VAT number on it. Could you issue it again?",
            "I cannot find the invoice for {order} anywhere in my account. Please send it as PDF.",
            "The invoice for {order} is made out to me. It has to name {company}.",
        ],
        answers: &[
            "Please send us the VAT number and the exact name of the company, and a corrected invoice follows the same day.",
            "The invoice for {order} over {amount} is attached.",
        ],
        follow_ups: &[
            "The name is {company}, the number is in the signature below.",
            "Thank you. Could future ones go to our accounts address as well?",
        ],
        endings: &[
            "The corrected invoice is attached, the old one is void.",
            "Done, copies go there from now on.",
        ],
    },
    Scenario {
        inbox: "billing",
        about: About::Order,
        weight: 7,
        tags: &["refund"],
        subjects: &[
            "Refund for {order} not received",
            "When will I get my money back?",
            "Partial refund for {order}",
        ],
        openings: &[
            "I returned {order} two weeks ago and have not seen the {amount} yet.",
            "Support promised me a partial refund for the scratched {product}. Nothing has come so far.",
            "You refunded {order} to a card that has expired. What happens to the money?",
        ],
        answers: &[
            "The refund left us and your bank has it; they need up to five working days to show it. The reference is at the end of this mail.",
            "I see the note from support. I will release it today, you get a confirmation by mail.",
        ],
        follow_ups: &[
            "The bank says there is nothing with that reference.",
            "Confirmation received, money not yet. I will be patient until Friday.",
        ],
        endings: &[
            "It came back to us because the account is closed. Please send us an account number through the secure form and we pay it out again.",
            "The bank confirmed the credit this morning. Thank you for your patience.",
        ],
    },
    Scenario {
        inbox: "billing",
        about: About::Order,
        weight: 4,
        tags: &["payment"],
        subjects: &["Payment declined for {order}", "Charged twice for {order}"],
        openings: &[
            "My card was declined at checkout, yet I got a confirmation for {order}. Was I charged?",
            "There are two charges of {amount} for {order} on my statement.",
        ],
        answers: &[
            "The first attempt failed at your bank and the second went through. Only one of them is a charge, the other is a reservation that ends within a week.",
            "I can see a double charge here. The second one goes back to you today.",
        ],
        follow_ups: &[
            "It still shows as booked, not reserved.",
            "Thank you, please confirm once it is done.",
        ],
        endings: &[
            "Our payment provider released it by hand; it is gone from your statement by tomorrow.",
            "It is done: {amount} left us a minute ago.",
        ],
    },
    Scenario {
        inbox: "wholesale",
        about: About::Product,
        weight: 7,
        tags: &["wholesale"],
        subjects: &[
            "Prices for 20 kg a month",
            "{company}: machine for our office",
            "Opening a café in {city}",
        ],
        openings: &[
            "We at {company} drink about 20 kg of coffee a month. What would Harbour Blend cost us, and how soon can you deliver?",
            "We look for a machine for 40 people that does not need a barista. Would a Bramling Duo survive that?",
            "I open a small café in {city} in spring. Do you lease machines, and what training comes with them?",
        ],
        answers: &[
            "From 15 kg a month you get 22 percent off the list price and free delivery each second week. Shall I set up an account for {company}?",
            "For 40 people I would rather take two machines side by side. I can offer a trial of four weeks without obligation.",
        ],
        follow_ups: &[
            "Sounds good. What are the terms of payment?",
            "Could somebody come by and look at our kitchen first?",
        ],
        endings: &[
            "Thirty days net after the first order. The contract is attached; reply with a yes and you can order.",
            "{agent} is in {city} next week and will call you to fix a time.",
        ],
    },
    Scenario {
        inbox: "wholesale",
        about: About::Product,
        weight: 4,
        tags: &["wholesale", "shipping-delay"],
        subjects: &["Standing order missing 5 kg", "Delivery came late again"],
        openings: &[
            "This week's delivery for {company} was short by five bags. We run out on Thursday.",
            "The second late delivery in a row. Our café in {city} had to buy beans at the supermarket.",
        ],
        answers: &[
            "I am sorry. Five bags leave today by courier at our cost, and I have asked the warehouse how they were left out.",
            "That must not happen. From next week on your delivery leaves a day earlier, and this one is free of charge.",
        ],
        follow_ups: &[
            "Arrived, thank you. Please make sure the next one is complete.",
            "We will see next week. Please give me a number to call if it fails again.",
        ],
        endings: &[
            "The packing list now needs a second signature for your account.",
            "My direct number is in the signature. Call me first.",
        ],
    },
    Scenario {
        inbox: "press",
        about: About::Stranger,
        weight: 3,
        tags: &["press"],
        subjects: &[
            "Review unit for a comparison",
            "Interview request",
            "Sponsoring a barista contest",
        ],
        openings: &[
            "I write for a kitchen magazine and compare home machines in our next issue. Could we borrow a Bramling Duo for four weeks?",
            "We are recording a series on small makers and would love to talk with your founder for half an hour.",
            "Our contest in autumn still needs grinders for six stations. Would Bramling like to be seen there?",
        ],
        answers: &[
            "Gladly. The loan form is attached, and a machine is free from next month.",
            "Thank you for thinking of us. I will ask and come back to you this week.",
        ],
        follow_ups: &[
            "Form attached, signed. Do you send it with beans?",
            "Any news? Our schedule closes on Friday.",
        ],
        endings: &[
            "It comes with a bag of Harbour Blend and our dialling-in card.",
            "We are in. {agent} will handle the details from here.",
        ],
    },
    Scenario {
        inbox: "people",
        about: About::Stranger,
        weight: 3,
        tags: &["hiring"],
        subjects: &[
            "Application: support agent",
            "Question about the workshop position",
            "Internship in summer",
        ],
        openings: &[
            "Please find my application for the support position attached. I have worked as a barista for six years and speak three languages.",
            "Is the technician position in the workshop still open, and is part time possible?",
            "I study product design and look for an internship of three months. Would you have room?",
        ],
        answers: &[
            "Thank you for applying. We read everything by the end of next week and will write either way.",
            "It is open, and 80 percent is possible. When could you come by?",
        ],
        follow_ups: &[
            "Thank you. I am free for a talk on any afternoon.",
            "Next Tuesday would suit me.",
        ],
        endings: &[
            "You are invited to a first talk; the three possible times are below.",
            "We chose somebody else this time and would like to keep your papers for the next opening.",
        ],
    },
    Scenario {
        inbox: "legal",
        about: About::Stranger,
        weight: 2,
        tags: &["legal"],
        subjects: &[
            "Trademark claim regarding Pocketmill",
            "Data protection enquiry",
            "Notice of claim",
        ],
        openings: &[
            "We act for a maker of hand grinders and ask you to stop using the name Pocketmill. Details are in the letter attached.",
            "As the supervising authority we ask for your record of processing activities within 30 days.",
            "Our client was injured by a kettle bought from you and reserves all rights. Please name your insurer.",
        ],
        answers: &[
            "We confirm receipt and have passed it to our counsel. You will hear from us within the term you set.",
            "The record you asked for is attached.",
        ],
        follow_ups: &[
            "We note your reply and extend the term once, by two weeks.",
            "Two entries lack a retention period. Please add them.",
        ],
        endings: &["Our counsel has answered you directly.", "The completed record is attached."],
    },
];
