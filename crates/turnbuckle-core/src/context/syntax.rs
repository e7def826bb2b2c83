//! What references and paths share in spelling: a cursor over the text, and errors that say what is wrong and where.

/// Longest reference text, in bytes. Models write references too.
pub(super) const MAX_BYTES: usize = 1024;

/// Most steps of a path.
pub(super) const MAX_SEGMENTS: usize = 32;

/// A text that is not a reference or path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a valid reference: at byte {at}, {problem}")]
pub struct ReferenceError {
    /// The text, clipped when it is too long.
    pub text: String,
    /// Offset in bytes at which the problem was seen.
    pub at: usize,
    /// The problem.
    pub problem: ReferenceProblem,
}

/// What is wrong with a reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferenceProblem {
    /// There is no text.
    #[error("there is nothing; write for instance `var:name` or a field's name")]
    Empty,
    /// The word before the colon is no kind.
    #[error(
        "`{0}:` is no kind of reference; the kinds are `var:`, `tool:`, `call:`, `sys:`, or none for a field"
    )]
    UnknownKind(String),
    /// A name is missing.
    #[error("a name is missing")]
    MissingName,
    /// A character that cannot stand here.
    #[error("`{0}` cannot stand here; a name with special characters is written `[\"name\"]`")]
    Unexpected(char),
    /// A bracket holds no step.
    #[error("a bracket holds a whole number, `*` or a name in double quotes")]
    BadBracket,
    /// The text or the path is too long.
    #[error("it is too long; at most {MAX_BYTES} bytes and {MAX_SEGMENTS} steps")]
    TooLong,
}

/// Whether a character may stand in a bare name.
pub(super) fn is_name_char(c: char) -> bool {
    !matches!(c, '.' | '[' | ']' | '{' | '}' | '"') && !c.is_whitespace() && !c.is_control()
}

/// A reading position in a text.
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The start of `text`.
    pub fn new(text: &'a str) -> Result<Self, ReferenceError> {
        let cursor = Self { text, at: 0 };
        if text.is_empty() {
            return Err(cursor.error(ReferenceProblem::Empty));
        }
        if text.len() > MAX_BYTES {
            return Err(cursor.error(ReferenceProblem::TooLong));
        }
        Ok(cursor)
    }

    /// The text not yet read.
    pub fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The next character.
    pub fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Reads `expected` when it comes next.
    pub fn eat(&mut self, expected: &str) -> bool {
        let found = self.rest().starts_with(expected);
        if found {
            self.at += expected.len();
        }
        found
    }

    /// Reads the longest run of characters that `keep` accepts.
    pub fn take_while(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !keep(c)).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    /// Reads a name of at least one character.
    pub fn name(&mut self) -> Result<&'a str, ReferenceError> {
        let name = self.take_while(is_name_char);
        if !name.is_empty() {
            return Ok(name);
        }
        Err(match self.peek() {
            None | Some('.' | '[') => self.error(ReferenceProblem::MissingName),
            Some(c) => self.error(ReferenceProblem::Unexpected(c)),
        })
    }

    /// Reads a string in double quotes, with the escapes of JSON.
    pub fn quoted(&mut self) -> Option<String> {
        let rest = self.rest();
        let mut escaped = false;
        for (i, c) in rest.char_indices().skip(1) {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => {
                    let end = i + 1;
                    let text = serde_json::from_str(rest.get(..end)?).ok()?;
                    self.at += end;
                    return Some(text);
                }
                _ => {}
            }
        }
        None
    }

    /// An error at the current position.
    pub fn error(&self, problem: ReferenceProblem) -> ReferenceError {
        let text = crate::json::clip(self.text, 120).to_owned();
        ReferenceError { text, at: self.at, problem }
    }
}
