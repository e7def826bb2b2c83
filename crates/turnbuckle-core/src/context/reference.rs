//! References: the kind of a value's home, the root in it, and the path from there.

use super::path::{Path, Segment, read_index};
use super::syntax::{Cursor, ReferenceError, ReferenceProblem, is_name_char};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Where a reference looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefKind {
    /// A variable.
    Var,
    /// Outputs of a tool.
    Tool(Calls),
    /// The output of one tool call.
    Call,
    /// A value set by the host.
    Sys,
    /// A field of the subject.
    Field,
}

/// Which calls of a tool are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Calls {
    /// The latest.
    Latest,
    /// All, as an array in call order.
    All,
    /// One, from 0 in call order; a negative one counts from the latest.
    At(i64),
}

/// A parsed reference. It prints as it is written, and what it prints parses to the same reference.
///
/// ```
/// use turnbuckle_core::context::{Calls, RefKind, Reference};
/// let reference: Reference = "tool:search[*].items[0]".parse().unwrap();
/// assert_eq!(reference.kind(), RefKind::Tool(Calls::All));
/// assert_eq!((reference.root(), reference.path().to_string().as_str()), ("search", ".items[0]"));
/// assert_eq!(reference.to_string(), "tool:search[].items[0]");
///
/// let error = "vars:total".parse::<Reference>().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "`vars:total` is not a valid reference: at byte 0, `vars:` is no kind of reference; \
///      the kinds are `var:`, `tool:`, `call:`, `sys:`, or none for a field",
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Reference {
    kind: RefKind,
    root: Arc<str>,
    path: Path,
}

impl Reference {
    /// A reference from its parts. A path that begins with an element of the latest call
    /// is kept as one of the last call (`tool:x[-1][0]`), since `tool:x[0]` is the first call.
    ///
    /// # Errors
    /// When the root is not a name.
    pub fn new(
        kind: RefKind,
        root: impl Into<Arc<str>>,
        path: Path,
    ) -> Result<Self, ReferenceError> {
        let root = root.into();
        let allowed = |c| is_name_char(c) && (kind != RefKind::Field || c != ':');
        let problem = match root.chars().find(|c| !allowed(*c)) {
            Some(c) => ReferenceProblem::Unexpected(c),
            None if root.is_empty() => ReferenceProblem::MissingName,
            None => {
                let kind = match (kind, path.segments().first()) {
                    (RefKind::Tool(Calls::Latest), Some(Segment::Index(_) | Segment::Each)) => {
                        RefKind::Tool(Calls::At(-1))
                    }
                    _ => kind,
                };
                return Ok(Self { kind, root, path });
            }
        };
        Err(ReferenceError { text: root.to_string(), at: 0, problem })
    }

    /// A variable as a whole.
    ///
    /// # Errors
    /// When `name` is not a name.
    pub fn var(name: &str) -> Result<Self, ReferenceError> {
        Self::new(RefKind::Var, name, Path::default())
    }

    /// Where it looks.
    pub fn kind(&self) -> RefKind {
        self.kind
    }

    /// The variable, tool, call, host value or field.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// The way from the root to the value.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        let mut cursor = Cursor::new(text)?;
        let mut ahead = Cursor::new(text)?;
        let head = ahead.take_while(|c| is_name_char(c) && c != ':');
        let kind = if ahead.eat(":") {
            let kind = match head {
                "var" => RefKind::Var,
                "tool" => RefKind::Tool(Calls::Latest),
                "call" => RefKind::Call,
                "sys" => RefKind::Sys,
                other => return Err(cursor.error(ReferenceProblem::UnknownKind(other.to_owned()))),
            };
            cursor = ahead;
            kind
        } else {
            RefKind::Field
        };
        let root = cursor.name()?.into();
        let kind = match kind {
            RefKind::Tool(_) => RefKind::Tool(read_calls(&mut cursor)?),
            other => other,
        };
        Ok(Self { kind, root, path: Path::read(&mut cursor)? })
    }
}

/// Reads the bracket that says which calls are meant, if there is one.
fn read_calls(cursor: &mut Cursor<'_>) -> Result<Calls, ReferenceError> {
    if cursor.eat("[]") || cursor.eat("[*]") {
        return Ok(Calls::All);
    }
    if !cursor.rest().starts_with('[') || cursor.rest().starts_with("[\"") {
        return Ok(Calls::Latest);
    }
    let start = cursor.error(ReferenceProblem::BadBracket);
    cursor.eat("[");
    match read_index(cursor) {
        Some(index) if cursor.eat("]") => Ok(Calls::At(index)),
        _ => Err(start),
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = match self.kind {
            RefKind::Var => "var:",
            RefKind::Tool(_) => "tool:",
            RefKind::Call => "call:",
            RefKind::Sys => "sys:",
            RefKind::Field => "",
        };
        write!(f, "{prefix}{}", self.root)?;
        match self.kind {
            RefKind::Tool(Calls::All) => f.write_str("[]")?,
            RefKind::Tool(Calls::At(index)) => write!(f, "[{index}]")?,
            _ => {}
        }
        write!(f, "{}", self.path)
    }
}

impl TryFrom<String> for Reference {
    type Error = ReferenceError;

    fn try_from(text: String) -> Result<Self, ReferenceError> {
        text.parse()
    }
}

impl From<Reference> for String {
    fn from(reference: Reference) -> String {
        reference.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(text: &str) -> (RefKind, String, String) {
        let reference: Reference = text.parse().unwrap();
        (reference.kind, reference.root.to_string(), reference.path.to_string())
    }

    #[test]
    fn the_grammar() {
        for (text, kind, root, path) in [
            ("var:cart", RefKind::Var, "cart", ""),
            ("var:cart.total", RefKind::Var, "cart", ".total"),
            ("var:cart[0]", RefKind::Var, "cart", "[0]"),
            ("tool:search", RefKind::Tool(Calls::Latest), "search", ""),
            ("tool:search.items[0]", RefKind::Tool(Calls::Latest), "search", ".items[0]"),
            ("tool:search[\"a b\"]", RefKind::Tool(Calls::Latest), "search", "[\"a b\"]"),
            ("tool:search[]", RefKind::Tool(Calls::All), "search", ""),
            ("tool:search[*].id", RefKind::Tool(Calls::All), "search", ".id"),
            ("tool:search[2]", RefKind::Tool(Calls::At(2)), "search", ""),
            ("tool:search[-1][0].id", RefKind::Tool(Calls::At(-1)), "search", "[0].id"),
            ("tool:mcp__a__b-c", RefKind::Tool(Calls::Latest), "mcp__a__b-c", ""),
            ("call:t1-3.thread.id", RefKind::Call, "t1-3", ".thread.id"),
            ("call:urn:x:1", RefKind::Call, "urn:x:1", ""),
            ("sys:userId", RefKind::Sys, "userId", ""),
            ("email", RefKind::Field, "email", ""),
            ("contact.emails.first", RefKind::Field, "contact", ".emails.first"),
            ("var", RefKind::Field, "var", ""),
            ("größe.0", RefKind::Field, "größe", ".0"),
        ] {
            assert_eq!(parts(text), (kind, root.to_owned(), path.to_owned()), "{text}");
        }
    }

    #[test]
    fn errors_say_what_is_wrong_and_where() {
        use ReferenceProblem::*;
        for (text, at, problem) in [
            ("", 0, Empty),
            ("var:", 4, MissingName),
            ("var:.x", 4, MissingName),
            ("var:[0]", 4, MissingName),
            (":x", 0, UnknownKind(String::new())),
            ("ticket:contact", 0, UnknownKind("ticket".into())),
            ("tool:search[x]", 11, BadBracket),
            ("tool:search[1", 11, BadBracket),
            ("var:a b", 5, Unexpected(' ')),
            (" var:a", 0, Unexpected(' ')),
            ("a.b.", 4, MissingName),
            ("{{x}}", 0, Unexpected('{')),
            ("[0]", 0, MissingName),
        ] {
            let expected = ReferenceError { text: text.into(), at, problem };
            assert_eq!(text.parse::<Reference>(), Err(expected));
        }
    }

    #[test]
    fn roots_that_cannot_be_written_are_refused() {
        let new = |kind, root| Reference::new(kind, root, Path::default()).map_err(|e| e.problem);
        assert_eq!(new(RefKind::Var, ""), Err(ReferenceProblem::MissingName));
        assert_eq!(new(RefKind::Var, "a.b"), Err(ReferenceProblem::Unexpected('.')));
        assert_eq!(new(RefKind::Field, "a:b"), Err(ReferenceProblem::Unexpected(':')));
        assert!(new(RefKind::Call, "a:b").is_ok());
    }

    #[test]
    fn an_element_of_the_latest_call_is_not_the_first_call() {
        let path: Path = "[0].id".parse().unwrap();
        let reference = Reference::new(RefKind::Tool(Calls::Latest), "search", path).unwrap();
        assert_eq!(reference.to_string(), "tool:search[-1][0].id");
    }

    #[test]
    fn travels_as_text() {
        let json = serde_json::json!("tool:search[].id");
        let reference: Reference = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&reference).unwrap(), json);
        assert!(serde_json::from_value::<Reference>(serde_json::json!("vars:x")).is_err());
    }

    fn segment() -> impl Strategy<Value = Segment> {
        prop_oneof![
            "[a-z_][a-z0-9_-]{0,6}".prop_map(|k| Segment::Key(k.into())),
            "\\PC{0,8}".prop_map(|k| Segment::Key(k.into())),
            prop::sample::select(vec!["first", "last", "0", "007", "", "a\"\\\n\u{1}", "]", "*"])
                .prop_map(|k| Segment::Key(k.into())),
            any::<usize>().prop_map(Segment::Number),
            any::<i64>().prop_map(Segment::Index),
            Just(Segment::First),
            Just(Segment::Last),
            Just(Segment::Each),
        ]
    }

    fn kind() -> impl Strategy<Value = RefKind> {
        prop_oneof![
            Just(RefKind::Var),
            Just(RefKind::Tool(Calls::Latest)),
            Just(RefKind::Tool(Calls::All)),
            any::<i64>().prop_map(|i| RefKind::Tool(Calls::At(i))),
            Just(RefKind::Call),
            Just(RefKind::Sys),
            Just(RefKind::Field),
        ]
    }

    proptest! {
        #[test]
        fn what_it_prints_parses_to_the_same(
            kind in kind(),
            root in "[\\p{L}0-9_-]{1,10}",
            segments in prop::collection::vec(segment(), 0..8),
        ) {
            let reference = Reference::new(kind, root, Path::new(segments).unwrap()).unwrap();
            prop_assert_eq!(reference.to_string().parse(), Ok(reference));
        }

        #[test]
        fn any_text_parses_or_is_refused_at_a_place_in_it(text in "\\PC{0,40}|[a-z:.\\[\\]*0-9\"-]{0,20}") {
            match text.parse::<Reference>() {
                Ok(reference) => prop_assert_eq!(reference.to_string().parse(), Ok(reference)),
                Err(error) => prop_assert!(text.get(error.at..).is_some()),
            }
        }
    }
}
