//! Orders on their way, gone astray, broken or unwanted.

use super::{About, Scenario};

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        inbox: "orders",
        about: About::Order,
        weight: 14,
        tags: &["shipping-delay"],
        subjects: &[
            "Where is my order {order}?",
            "{order} still not here",
            "Tracking for {product} has not moved",
        ],
        openings: &[
            "I ordered a {product} ({order}) and the tracking has said the same thing for days. Can you find out where it is?",
            "My order {order} was supposed to arrive in {city} by now. The {carrier} page only says it is being processed. Is it lost?",
            "Could you check on {order} please? I took a day off to receive the {product} and nobody came.",
        ],
        answers: &[
            "Sorry for the wait. I see {order} left our warehouse and {carrier} last scanned it at the depot near {city}. I have opened an enquiry with them under {tracking} and will write again within two working days.",
            "Thanks for your patience. {carrier} tells us the parcel {tracking} missed its connection and is moving again. It should reach {city} within two working days; if it does not, we send a replacement.",
        ],
        follow_ups: &[
            "It is two days later and there is still no change. I need the {product} for a dinner this weekend, what are my options?",
            "The tracking now says delivered, but nothing was left at my door and the neighbours have not seen it either.",
        ],
        endings: &[
            "{carrier} has confirmed the parcel as lost, so a replacement for {order} leaves today with express delivery. There is nothing for you to pay or sign.",
            "The driver left it with a parcel shop in {city}; the pick-up code is in your text messages. Please bring an identity card.",
        ],
    },
    Scenario {
        inbox: "orders",
        about: About::Order,
        weight: 9,
        tags: &["damaged"],
        subjects: &[
            "{product} arrived damaged",
            "Broken on arrival: {order}",
            "Dented box, cracked {product}",
        ],
        openings: &[
            "The {product} from {order} arrived today with a crack along the side. The outer box was crushed at one corner. Photos attached.",
            "Unpacked {order} this morning and the {product} rattles. Something has come loose inside. I have not plugged it in.",
            "My parcel looks as if {carrier} dropped it down the stairs. The {product} has a dent and does not sit level any more.",
        ],
        answers: &[
            "I am sorry, that is not how it should reach you. Please keep the box for the carrier's inspection. Would you like a replacement, or your money back?",
            "Thank you for the photos, they are all I need. I can send a new {product} at once and have {carrier} collect the damaged one at your door.",
        ],
        follow_ups: &[
            "A replacement please. When would it arrive, and do I have to be at home for the collection?",
            "I would rather have part of the price back and keep it, it is only cosmetic. Would that be possible?",
        ],
        endings: &[
            "The replacement for {order} is packed and leaves tonight. {carrier} collects the damaged one any day you choose; leave it in its box.",
            "Agreed. I have asked billing to give back part of the {amount} you paid; it shows on your account in three to five days.",
        ],
    },
    Scenario {
        inbox: "orders",
        about: About::Order,
        weight: 8,
        tags: &["returns"],
        subjects: &[
            "Return of {order}",
            "I would like to send back the {product}",
            "Return label please",
        ],
        openings: &[
            "The {product} from {order} is lovely, but too tall for the space under my cupboards. I would like to return it, it is unused.",
            "How do I send back {order}? It was a present and turned out to be a duplicate.",
            "I am within the 30 days and would like to return the {product}. Do I pay for the parcel?",
        ],
        answers: &[
            "No trouble at all. Returns within 30 days are free; the label for {order} is attached. Drop the parcel at any {carrier} shop.",
            "You can return it free of charge. Please put it in the original packaging and use the attached label. The refund follows two days after it arrives.",
        ],
        follow_ups: &[
            "Parcel dropped off this morning. When will I see the {amount}?",
            "I no longer have the original box. Is another sturdy one all right?",
        ],
        endings: &[
            "Your return arrived and passed inspection. {amount} goes back the way you paid and shows within five working days.",
            "Another box is fine as long as the {product} cannot move in it. Use at least five centimetres of padding all around.",
        ],
    },
    Scenario {
        inbox: "orders",
        about: About::Order,
        weight: 6,
        tags: &["order-change"],
        subjects: &[
            "Wrong address on {order}",
            "Please change my order {order}",
            "Can I still add to {order}?",
        ],
        openings: &[
            "I just placed {order} and used my old address. Can it go to my new flat in {city} instead?",
            "Could you swap the coffee in {order} for the decaf? I clicked too quickly.",
            "May I add a Descaling Kit to {order} before it ships, to save a parcel?",
        ],
        answers: &[
            "Caught it in time. {order} has not been packed yet, so please reply with the full new address and I will change it.",
            "We can change orders until they are packed, which for {order} is this evening. I have put it on hold until you confirm.",
        ],
        follow_ups: &[
            "Confirmed, please go ahead. The flat is on the second floor, the bell has my name.",
            "Yes please. Is there a difference to pay?",
        ],
        endings: &[
            "Done: {order} is changed and released. You will get the tracking number by mail tonight.",
            "It is changed. The difference is so small that we leave it at that.",
        ],
    },
    Scenario {
        inbox: "orders",
        about: About::Order,
        weight: 5,
        tags: &["damaged", "returns"],
        subjects: &["Wrong item in {order}", "Received something else than the {product}"],
        openings: &[
            "I ordered a {product} and found somebody else's order in the box. The packing slip is not mine either.",
            "{order} should contain a {product}. Instead I got two bags of coffee. Nice, but not what I paid {amount} for.",
        ],
        answers: &[
            "Two labels were swapped at our packing table, sorry about that. Your {product} goes out today, and here is a label for what you received.",
            "Thank you for telling us. Keep the coffee; your {product} is on its way with express delivery.",
        ],
        follow_ups: &[
            "Thanks. Will I get a new tracking number for it?",
            "That is generous. Can you tell me which day, so that somebody is at home?",
        ],
        endings: &[
            "The new parcel with {carrier} has the number {tracking} and is due tomorrow before noon.",
            "It is due on the day after tomorrow between nine and one.",
        ],
    },
    Scenario {
        inbox: "orders",
        about: About::Order,
        weight: 4,
        tags: &["customs"],
        subjects: &["Customs fees for {order}", "Parcel held at customs"],
        openings: &[
            "{carrier} wants a customs payment before they hand over {order}. I thought duties were included in the price?",
            "My {product} has been at customs for a week and they ask for a commercial invoice. Can you send one?",
        ],
        answers: &[
            "Duties are included for your country, so please do not pay. I have sent {carrier} the paid-duty reference for {tracking}.",
            "The commercial invoice is attached, with the tariff code for the {product}. Customs usually release it within two days of receiving it.",
        ],
        follow_ups: &[
            "They still ask for money at the door. What do I tell the driver?",
            "Sent it to them, they say the value is missing on page two.",
        ],
        endings: &[
            "We settled it with {carrier} directly; the next attempt is tomorrow and free of charge.",
            "A corrected invoice with the value of {amount} is attached and went to customs as well.",
        ],
    },
];
