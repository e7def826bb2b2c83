//! The knowledge base: articles written by hand, and three for each machine and grinder that differ
//! in what differs between them.

use sqlx::SqliteConnection;

use super::people::number;
use super::rng::Rng;
use super::{DAY, HOUR, plain, put};
use crate::error::Result;

/// Articles as text: a title line `# …`, `category:` and `audience:` lines, a body; `===` between.
const WRITTEN: &str = include_str!("content/articles.md");

/// What differs between products with articles of their own.
struct Facts {
    product: &'static str,
    warm_up: &'static str,
    dose: &'static str,
    descale: &'static str,
    volume: &'static str,
    gasket: &'static str,
    weight: &'static str,
}

const MACHINES: &[Facts] = &[
    Facts {
        product: "Bramling One",
        warm_up: "8 minutes",
        dose: "16 to 18 g",
        descale: "every 60 litres, or each 10 weeks in daily use",
        volume: "2.1 litres",
        gasket: "8.5 mm",
        weight: "9 kg",
    },
    Facts {
        product: "Bramling Duo",
        warm_up: "14 minutes",
        dose: "18 to 20 g",
        descale: "every 120 litres; the two boilers are done one after the other",
        volume: "2.8 litres",
        gasket: "8.0 mm",
        weight: "19 kg",
    },
    Facts {
        product: "Bramling Lever",
        warm_up: "20 minutes",
        dose: "14 to 16 g",
        descale: "every 40 litres, with the lever up",
        volume: "1.6 litres",
        gasket: "9.0 mm",
        weight: "13 kg",
    },
];

const MACHINE_TEXTS: &[(&str, &str, &str)] = &[
    (
        "Getting started with the {product}",
        "Getting started",
        "Put the {product} on a level surface that bears {weight} and leave 10 cm free above it. Rinse the tank and fill it with fresh water; it holds {volume}. Switch on and wait {warm_up} until the light is steady, then run half a tank through the group and a cup through the steam wand to flush what is left from testing at the factory.\n\nFor the first shot use {dose} of coffee, level it, press once, and stop at twice that weight in the cup. It should take 26 to 30 seconds. Too fast: grind finer. Too slow: grind coarser.",
    ),
    (
        "Descaling the {product}",
        "Care",
        "Descale the {product} {descale}; the orange light reminds you. Use one sachet of the Descaling Kit in one litre of lukewarm water. Never use vinegar: it attacks the seals and the warranty does not cover the damage.\n\n1. Empty the drip tray, fill in the solution, take off the portafilter.\n2. Hold the brew switch for five seconds until the light pulses.\n3. The programme runs in four steps with pauses of ten minutes. Do not stop it.\n4. Rinse the tank, fill it to the line ({volume}), and start the rinse. The light goes off only when the rinse has run with a full tank.\n\nA taste of citrus afterwards is harmless and leaves with one more tank.",
    ),
    (
        "Changing the group gasket of the {product}",
        "Repair",
        "Change the gasket when the portafilter goes past the centre, or coffee leaks over its rim; with daily use that is after about 18 months. The {product} takes the {gasket} gasket of the Gasket and Screen Kit.\n\nLet the machine cool down and unplug it. Undo the screw of the screen, take out screen and diffuser, and lift the old gasket with a wooden skewer; metal scratches the sealing face. If it crumbles, warm the group for ten minutes, switch off and try again. Wipe the seat, press in the new gasket with the bevel up, put back diffuser and screen, and lock in the empty portafilter for a minute to seat it.",
    ),
];

const GRINDERS: &[Facts] = &[
    Facts {
        product: "Fieldmill",
        warm_up: "zero plus 8 clicks",
        dose: "250 g",
        descale: "each 10 kg of coffee",
        volume: "55 mm flat burrs",
        gasket: "500 kg",
        weight: "4.2 kg",
    },
    Facts {
        product: "Fieldmill Pro",
        warm_up: "zero plus 11 clicks",
        dose: "400 g",
        descale: "each 15 kg of coffee",
        volume: "64 mm flat burrs",
        gasket: "800 kg",
        weight: "6.8 kg",
    },
    Facts {
        product: "Pocketmill",
        warm_up: "zero plus 14 clicks",
        dose: "35 g",
        descale: "each 3 kg of coffee",
        volume: "38 mm conical burrs",
        gasket: "150 kg",
        weight: "600 g",
    },
];

const GRINDER_TEXTS: &[(&str, &str, &str)] = &[
    (
        "Setting up the {product} and finding zero",
        "Getting started",
        "The {product} has {volume} and takes {dose} of beans. Every grinder leaves us a little different, so find your own zero first: empty it, turn the ring finer by single clicks while it runs, and stop where the burrs just chirp. That click is zero.\n\nEspresso begins about at {warm_up}; filter coffee lies far coarser. Move one click at a time and throw away the first two grams after each change, since they are still from the old setting.",
    ),
    (
        "Cleaning the {product}",
        "Care",
        "Clean the {product} {descale}, sooner with dark and oily beans. Run it empty, unplug it where it has a plug, take off the hopper, turn the ring to the dot and pull out the upper burr. Brush both burrs, the chamber and the chute. Never use water on the burrs; they rust within hours.\n\nPut the burr back so that the dot meets the notch; the ring clicks when it sits. Your settings stay as they were. A rough noise afterwards means that the burr is not seated: take it out once more.",
    ),
    (
        "When the burrs of the {product} are worn",
        "Repair",
        "Burrs of the {product} last for about {gasket} of coffee. Signs of wear are shots that run fast however fine the setting, warm grounds, and a zero that has moved by more than six clicks since it was new. A zero that moves by one or two clicks in a year is normal.\n\nReplacement burrs come with their screws. Tighten these crosswise, find zero anew, and grind 200 g of old beans before judging the taste. The {product} weighs {weight}, so it can be sent to the workshop in an ordinary parcel if you would rather have it done.",
    ),
];

struct Article {
    title: String,
    category: String,
    audience: &'static str,
    body: String,
}

fn written() -> impl Iterator<Item = Article> {
    WRITTEN.split("\n===\n").filter_map(|text| {
        let mut lines = text.trim().splitn(4, '\n');
        let title = lines.next()?.strip_prefix("# ")?.to_owned();
        let category = lines.next()?.strip_prefix("category: ")?.to_owned();
        let audience = match lines.next()?.strip_prefix("audience: ")? {
            "internal" => "internal",
            _ => "public",
        };
        Some(Article { title, category, audience, body: lines.next()?.trim().to_owned() })
    })
}

fn per_product() -> impl Iterator<Item = Article> {
    let machines = MACHINES.iter().map(|facts| (facts, MACHINE_TEXTS));
    let grinders = GRINDERS.iter().map(|facts| (facts, GRINDER_TEXTS));
    machines.chain(grinders).flat_map(|(facts, texts)| {
        let values = [
            ("product", facts.product),
            ("warm_up", facts.warm_up),
            ("dose", facts.dose),
            ("descale", facts.descale),
            ("volume", facts.volume),
            ("gasket", facts.gasket),
            ("weight", facts.weight),
        ];
        texts.iter().map(move |(title, category, body)| Article {
            title: put(title, &values),
            category: (*category).to_owned(),
            audience: "public",
            body: put(body, &values),
        })
    })
}

pub(crate) async fn write(conn: &mut SqliteConnection, seed: u64, now: i64) -> Result<()> {
    let mut rng = Rng::new(seed, "articles");
    for (position, article) in written().chain(per_product()).enumerate() {
        sqlx::query(
            "INSERT INTO articles (id, slug, title, category, audience, body, updated_at)
             VALUES (?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(number(position))
        .bind(plain(&article.title).replace('.', "-"))
        .bind(article.title)
        .bind(article.category)
        .bind(article.audience)
        .bind(article.body)
        .bind(now - HOUR - rng.recent(400 * DAY))
        .execute(&mut *conn)
        .await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_written_article_is_read() {
        let titles = WRITTEN.lines().filter(|line| line.starts_with("# ")).count();
        assert_eq!(written().count(), titles);
        assert!(written().chain(per_product()).all(|article| article.body.len() > 150));
        assert!(per_product().all(|article| !article.body.contains('{')));
    }
}
