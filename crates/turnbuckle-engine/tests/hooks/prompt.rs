//! What a prompt depends on besides the agent: where the answer is shown, who reads it, and when and where that is.

use super::*;
use turnbuckle_core::message::Surroundings;
use turnbuckle_core::prompt::{Section, Tier, When, clock_section};
use turnbuckle_core::time::Timestamp;
use turnbuckle_engine::tool::Clock;
use turnbuckle_engine::{Reader, Submission};

/// A domain whose people are known.
struct Known {
    agents: Agents,
    reader: Reader,
}

impl Domain for Known {
    fn agents(&self) -> &BTreeMap<AgentName, Arc<Agent>> {
        self.agents.agents()
    }

    fn open_turn(&self, _: Option<&Value>, _: &TurnInfo) -> Box<dyn DomainTurn> {
        Box::new(KnownTurn(self.reader.clone()))
    }
}

struct KnownTurn(Reader);

impl Hooks for KnownTurn {}

impl DomainTurn for KnownTurn {
    fn reader(&self) -> Reader {
        self.0.clone()
    }
}

fn only(name: &str, when: When) -> Section {
    Section::fixed(Tier::Static, name.to_owned(), format!("This is for {name}.")).when(when)
}

#[tokio::test]
async fn a_prompt_is_for_those_who_read_it_where_they_read_it() {
    let (email, vienna) = (Some("email"), Some("Europe/Vienna"));
    let here = |audience: Option<&str>, zone: Option<&str>| Reader {
        audience: audience.map(Into::into),
        time_zone: zone.map(Into::into),
    };
    let cases = [
        (here(None, None), None, None, vec!["chat"], "12:00 (UTC)"),
        (
            here(Some("member"), vienna),
            None,
            None,
            vec!["chat", "members"],
            "13:00 (Europe/Vienna, UTC+01:00)",
        ),
        (
            here(Some("guest"), None),
            email,
            vienna,
            vec!["email"],
            "13:00 (Europe/Vienna, UTC+01:00)",
        ),
        // Who is on the road reads what time it is there.
        (
            here(None, vienna),
            None,
            Some("Asia/Tokyo"),
            vec!["chat"],
            "21:00 (Asia/Tokyo, UTC+09:00)",
        ),
    ];
    let noon: Timestamp = serde_json::from_value(json!("2026-11-27T12:00:00.000Z")).unwrap();
    for (reader, surface, time_zone, sections, clock) in cases {
        let agent = Agent::builder("main")
            .section(only("chat", When::always().surface("chat")))
            .section(only("email", When::always().surface("email")))
            .section(only("members", When::always().audience("member")))
            .section(clock_section())
            .build()
            .unwrap();
        let agents = Agents::new([agent]);
        let bench = Bench::with(ScriptedModel::new("m", [text("Hello.")]), |builder| {
            builder.domain(Known { agents, reader }).clock(Clock::fixed(noon))
        });
        let key = bench.session().await;
        let mut submission = Submission::new("hello");
        submission.surroundings = Surroundings {
            surface: surface.map(Into::into),
            time_zone: time_zone.map(Into::into),
            ..Surroundings::default()
        };
        bench.say(&key, submission).await;
        let request = bench.last_request();
        let prompt: Vec<_> = request.system.iter().map(|block| block.text.to_string()).collect();
        let prompt = prompt.join("\n\n");
        let mut expected: Vec<_> =
            sections.iter().map(|name| format!("This is for {name}.")).collect();
        expected.push(format!("It is now Friday, 27 November 2026, {clock}."));
        assert_eq!(prompt.split("\n\n").collect::<Vec<_>>(), expected);
    }
}
