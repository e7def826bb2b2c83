//! What begins with a slash.

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slash {
    /// What can be typed.
    Help,
    /// The sessions there are.
    Sessions,
    /// One of them, by its number in the list or its id.
    Open(String),
    /// A fresh one.
    New,
    /// Another model, or which one it is.
    Model(Option<String>),
    /// What it cost.
    Usage,
    /// Stop a turn.
    Stop,
    /// Something for the turn that runs.
    Steer(String),
    /// What is always allowed.
    Allowed,
    /// One of these is not any more.
    Disallow(usize),
    /// An image or file for the next message.
    Attach(String),
    /// Another title.
    Title(String),
    /// What was captured.
    Captured,
    /// Leave.
    Quit,
    /// None of these, with the nearest.
    Unknown(&'static str),
    /// One of these without what it needs.
    Incomplete(&'static str),
}

/// What `/help` says.
pub const HELP: &str = "\
/sessions        list sessions
/open N          go on with number N of the list, or with a session's id
/new             begin a new session
/model [NAME]    say which model answers, or choose another (provider:model)
/attach FILE     show the model a picture, a PDF or a text file with your next message
/usage           tokens and money of this session
/title TEXT      give this session a title
/allowed         what you said to be always allowed
/disallow N      ask again about number N of these
/captured        actions that were captured here instead of carried out
/stop            stop the turn
/steer TEXT      tell the running turn something at its next step
/quit            leave; what was done is stored
What you type while a turn runs is queued and sent when it is done.
Ctrl-C stops the running turn; a second one quits.";

const NAMES: [&str; 14] = [
    "/help",
    "/sessions",
    "/open",
    "/new",
    "/model",
    "/attach",
    "/usage",
    "/stop",
    "/steer",
    "/allowed",
    "/disallow",
    "/title",
    "/captured",
    "/quit",
];

/// The command of a line; `None` when the line is a message.
pub fn parse(line: &str) -> Option<Slash> {
    let line = line.trim();
    if !line.starts_with('/') {
        return None;
    }
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = Some(rest.trim().to_owned()).filter(|r| !r.is_empty());
    Some(match (name, rest) {
        ("/help" | "/?", _) => Slash::Help,
        ("/sessions", _) => Slash::Sessions,
        ("/open", Some(which)) => Slash::Open(which),
        ("/open", None) => Slash::Incomplete("/open needs a number of /sessions, or an id"),
        ("/new", _) => Slash::New,
        ("/model", name) => Slash::Model(name),
        ("/attach", Some(what)) => Slash::Attach(what),
        ("/attach", None) => Slash::Incomplete("/attach needs a file, or an https address"),
        ("/usage", _) => Slash::Usage,
        ("/stop", _) => Slash::Stop,
        ("/steer", Some(text)) => Slash::Steer(text),
        ("/steer", None) => Slash::Incomplete("/steer needs what to tell the turn"),
        ("/allowed", _) => Slash::Allowed,
        ("/disallow", number) => match number.and_then(|n| n.parse().ok()) {
            Some(number) => Slash::Disallow(number),
            None => Slash::Incomplete("/disallow needs a number of /allowed"),
        },
        ("/title", Some(title)) => Slash::Title(title),
        ("/title", None) => Slash::Incomplete("/title needs a title"),
        ("/captured", _) => Slash::Captured,
        ("/quit" | "/exit" | "/q", _) => Slash::Quit,
        (other, _) => {
            let close = |n: &&str| strsim::jaro_winkler(other, n);
            let nearest = NAMES.iter().max_by(|a, b| close(a).total_cmp(&close(b)));
            Slash::Unknown(nearest.copied().unwrap_or("/help"))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_a_slash_are_commands() {
        assert_eq!(parse("hello /help"), None);
        assert_eq!(parse(" /open  3 "), Some(Slash::Open("3".into())));
        assert_eq!(parse("/model"), Some(Slash::Model(None)));
        assert_eq!(parse("/title A b"), Some(Slash::Title("A b".into())));
        assert_eq!(parse("/sesions"), Some(Slash::Unknown("/sessions")));
        assert!(matches!(parse("/open"), Some(Slash::Incomplete(_))));
        assert_eq!(parse("/steer go left"), Some(Slash::Steer("go left".into())));
        assert_eq!(parse("/disallow 2"), Some(Slash::Disallow(2)));
        assert!(matches!(parse("/disallow two"), Some(Slash::Incomplete(_))));
    }

    #[test]
    fn help_names_every_command() {
        for name in NAMES.iter().filter(|n| **n != "/help") {
            assert!(HELP.contains(name), "{name}");
        }
    }
}
