//! Titles of sessions, made from what the person wrote first and never from what a model answered.

use crate::message::{Message, Origin, UserMessage};

/// Characters of the longest title.
pub const LONGEST: usize = 60;

/// The beginning of the first line that says something, cut between words.
///
/// ```
/// use turnbuckle_core::title::title_of;
/// assert_eq!(title_of("\n  Where is   my parcel?\nThanks").unwrap(), "Where is my parcel?");
/// assert_eq!(title_of(" \n "), None);
/// ```
pub fn title_of(text: &str) -> Option<String> {
    let line = text.lines().map(plain).find(|line| !line.is_empty())?;
    let Some((cut, _)) = line.char_indices().nth(LONGEST) else { return Some(line) };
    let (kept, rest) = line.split_at_checked(cut)?;
    let whole_words = match kept.rsplit_once(' ') {
        _ if rest.starts_with(' ') => kept,
        // A beginning that is one long word is cut within it, as is text that does not part its words.
        Some((words, _)) if words.chars().count() * 2 >= LONGEST => words,
        _ => kept,
    };
    let end = |c: char| c.is_whitespace() || matches!(c, ',' | ';' | ':' | '-' | '–');
    Some(format!("{}…", whole_words.trim_end_matches(end)))
}

/// The line without control characters, runs of white space, and the marks of a heading, a list or a quotation.
fn plain(line: &str) -> String {
    let marks = |c: char| c.is_whitespace() || matches!(c, '#' | '>' | '*' | '-' | '`');
    let text = line.trim_start_matches(marks);
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The message that a session is named after: the first that a person wrote, or else the first of all.
pub fn first_message(messages: &[Message]) -> Option<&UserMessage> {
    let users = || {
        messages.iter().filter_map(|m| match m {
            Message::User(m) => Some(m),
            Message::Assistant(_) | Message::System(_) => None,
        })
    };
    users().find(|m| m.origin == Origin::Person).or_else(|| users().next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn long_lines_are_cut_between_words() {
        let long = "Could you please find out where the parcel of order 4711, which left on Monday, has gone?";
        let expected = "Could you please find out where the parcel of order 4711…";
        assert_eq!(title_of(long).unwrap(), expected);
        let exact = "a".repeat(LONGEST);
        assert_eq!(title_of(&exact).unwrap(), exact);
        assert_eq!(title_of(&format!("{exact} b")).unwrap(), format!("{exact}…"));
    }

    #[test]
    fn words_that_do_not_end_are_cut() {
        assert_eq!(title_of(&"ä".repeat(100)).unwrap(), format!("{}…", "ä".repeat(LONGEST)));
        let one = format!("see {}", "x".repeat(100));
        assert_eq!(title_of(&one).unwrap(), format!("see {}…", "x".repeat(LONGEST - 4)));
    }

    #[test]
    fn marks_of_a_heading_or_a_list_go() {
        assert_eq!(title_of("## Refunds\ntext").unwrap(), "Refunds");
        assert_eq!(title_of("> - `fold` fails").unwrap(), "fold` fails");
        assert_eq!(title_of("---\n\n# *"), None);
        assert_eq!(title_of("a\u{1b}[2Jb\tc").unwrap(), "a [2Jb c");
    }

    proptest! {
        #[test]
        fn a_title_is_short_and_one_line(text in "(?s).{0,300}") {
            if let Some(title) = title_of(&text) {
                prop_assert!(!title.is_empty() && title.chars().count() <= LONGEST + 1);
                prop_assert!(title.chars().all(|c| !c.is_control()));
                prop_assert_eq!(title.trim(), title.as_str());
            }
        }
    }
}
