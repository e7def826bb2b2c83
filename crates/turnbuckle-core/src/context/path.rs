//! Paths into JSON values, and the one walker that follows them.

use super::syntax::{Cursor, MAX_SEGMENTS, ReferenceError, ReferenceProblem, is_name_char};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// One step of a path. What it does on arrays and objects is tabled in [the module](super).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Segment {
    /// A property.
    Key(Arc<str>),
    /// A bare number: an element, or the property of that name.
    Number(usize),
    /// An element; a negative one counts from the end.
    Index(i64),
    /// The first element, or the property `first`.
    First,
    /// The last element, or the property `last`.
    Last,
    /// Every element.
    Each,
}

impl Segment {
    /// The step a bare word after a dot stands for.
    fn bare(word: &str) -> Self {
        match word {
            "first" => return Self::First,
            "last" => return Self::Last,
            _ => {}
        }
        let canonical = word == "0" || !word.starts_with('0');
        match word.parse() {
            Ok(number) if canonical && !word.starts_with('+') => Self::Number(number),
            _ => Self::Key(word.into()),
        }
    }

    /// The property this step names on an object.
    pub(super) fn key(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::Key(key) => Some(Cow::Borrowed(key)),
            Self::Number(number) => Some(Cow::Owned(number.to_string())),
            Self::First => Some(Cow::Borrowed("first")),
            Self::Last => Some(Cow::Borrowed("last")),
            Self::Index(_) | Self::Each => None,
        }
    }

    /// The element this step names in an array of `len` elements.
    pub(super) fn position(&self, len: usize) -> Option<usize> {
        let position = match self {
            Self::Number(number) => *number,
            Self::Index(index) => position(*index, len)?,
            Self::First => 0,
            Self::Last => len.checked_sub(1)?,
            Self::Key(_) | Self::Each => return None,
        };
        (position < len).then_some(position)
    }

    fn step<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        match value {
            Value::Object(map) => map.get(&*self.key()?),
            Value::Array(items) => items.get(self.position(items.len())?),
            _ => None,
        }
    }
}

/// The position `index` means among `len` items; a negative one counts from the end.
pub(super) fn position(index: i64, len: usize) -> Option<usize> {
    let position = if index < 0 { index.checked_add(i64::try_from(len).ok()?)? } else { index };
    usize::try_from(position).ok().filter(|p| *p < len)
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => {
                let bare = !key.is_empty() && key.chars().all(is_name_char);
                if bare && matches!(Self::bare(key), Self::Key(_)) {
                    write!(f, ".{key}")
                } else {
                    write!(f, "[{}]", Value::from(&**key))
                }
            }
            Self::Number(number) => write!(f, ".{number}"),
            Self::Index(index) => write!(f, "[{index}]"),
            Self::First => f.write_str(".first"),
            Self::Last => f.write_str(".last"),
            Self::Each => f.write_str("[*]"),
        }
    }
}

/// Steps from a root to a value inside it. The empty path is the root itself.
///
/// ```
/// use serde_json::json;
/// use turnbuckle_core::context::{Path, walk};
/// let cart = json!({"items": [{"sku": "a"}, {"note": "gift"}, {"sku": "b"}]});
/// let skus: Path = "items[*].sku".parse().unwrap();
/// assert_eq!(walk(&cart, &skus).as_deref(), Some(&json!(["a", "b"])));
/// let last: Path = "items[-1].sku".parse().unwrap();
/// assert_eq!(walk(&cart, &last).as_deref(), Some(&json!("b")));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Path(Vec<Segment>);

impl Path {
    /// A path of these steps.
    ///
    /// # Errors
    /// When there are more steps than a reference may have.
    pub fn new(segments: Vec<Segment>) -> Result<Self, ReferenceError> {
        let path = Self(segments);
        if path.0.len() > MAX_SEGMENTS {
            let text = crate::json::clip(&path.to_string(), 120).to_owned();
            return Err(ReferenceError { text, at: 0, problem: ReferenceProblem::TooLong });
        }
        Ok(path)
    }

    /// The steps.
    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// Whether the path is the root itself.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads steps up to the end of the text.
    pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Self, ReferenceError> {
        let mut segments = Vec::new();
        loop {
            segments.push(match cursor.peek() {
                None => return Ok(Self(segments)),
                Some(_) if segments.len() == MAX_SEGMENTS => {
                    return Err(cursor.error(ReferenceProblem::TooLong));
                }
                Some('.') => {
                    cursor.eat(".");
                    Segment::bare(cursor.name()?)
                }
                Some('[') => {
                    let start = cursor.error(ReferenceProblem::BadBracket);
                    cursor.eat("[");
                    let segment = if cursor.eat("*") {
                        Some(Segment::Each)
                    } else if cursor.peek() == Some('"') {
                        cursor.quoted().map(|key| Segment::Key(key.into()))
                    } else {
                        read_index(cursor).map(Segment::Index)
                    };
                    match segment {
                        Some(segment) if cursor.eat("]") => segment,
                        _ => return Err(start),
                    }
                }
                Some(c) => return Err(cursor.error(ReferenceProblem::Unexpected(c))),
            });
        }
    }
}

/// Reads a whole number, which may be negative.
pub(super) fn read_index(cursor: &mut Cursor<'_>) -> Option<i64> {
    cursor.take_while(|c| c == '-' || c.is_ascii_digit()).parse().ok()
}

impl FromStr for Path {
    type Err = ReferenceError;

    /// Reads a path; the dot before the first step may be left out.
    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let mut cursor = Cursor::new(text)?;
        let mut segments = Vec::new();
        if cursor.peek().is_some_and(is_name_char) {
            segments.push(Segment::bare(cursor.name()?));
        }
        segments.extend(Self::read(&mut cursor)?.0);
        if segments.len() > MAX_SEGMENTS {
            return Err(cursor.error(ReferenceProblem::TooLong));
        }
        Ok(Self(segments))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|segment| write!(f, "{segment}"))
    }
}

/// Follows `path` from `value`. Borrows unless the path gathers (`[*]` with more steps after it).
pub fn walk<'a>(value: &'a Value, path: &Path) -> Option<Cow<'a, Value>> {
    walk_segments(value, &path.0)
}

pub(super) fn walk_segments<'a>(
    mut value: &'a Value,
    segments: &[Segment],
) -> Option<Cow<'a, Value>> {
    let mut segments = segments.iter();
    while let Some(segment) = segments.next() {
        if *segment == Segment::Each {
            let items = value.as_array()?;
            let tail = segments.as_slice();
            return Some(if tail.is_empty() {
                Cow::Borrowed(value)
            } else {
                Cow::Owned(gather(items.iter(), tail))
            });
        }
        value = segment.step(value)?;
    }
    Some(Cow::Borrowed(value))
}

/// What the path leads to from each value that has it.
pub(super) fn gather<'a>(values: impl Iterator<Item = &'a Value>, segments: &[Segment]) -> Value {
    values.filter_map(|v| walk_segments(v, segments)).map(Cow::into_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(value: &Value, path: &str) -> Option<Value> {
        walk(value, &path.parse().unwrap()).map(Cow::into_owned)
    }

    #[test]
    fn each_step_on_arrays_and_objects() {
        let v = json!({
            "a": [10, 20, 30],
            "o": {"0": "zero", "first": "f", "last": "l", "07": "seven", "odd name": 1, "": 2},
            "rows": [{"id": 1, "tags": ["x"]}, {"id": 2, "tags": []}, {"other": 3}, 4],
            "none": null,
            "empty": [],
        });
        for (path, expected) in [
            ("", Some(v.clone())),
            ("a", Some(json!([10, 20, 30]))),
            (".a", Some(json!([10, 20, 30]))),
            ("a.0", Some(json!(10))),
            ("a[0]", Some(json!(10))),
            ("a[-1]", Some(json!(30))),
            ("a[-3]", Some(json!(10))),
            ("a[-4]", None),
            ("a[3]", None),
            ("a.3", None),
            ("a.00", None),
            ("a.+0", None),
            ("a.first", Some(json!(10))),
            ("a.last", Some(json!(30))),
            ("a.x", None),
            ("a[\"first\"]", None),
            ("a[*]", Some(json!([10, 20, 30]))),
            ("o.0", Some(json!("zero"))),
            ("o.07", Some(json!("seven"))),
            ("o[0]", None),
            ("o[*]", None),
            ("o.first", Some(json!("f"))),
            ("o.last", Some(json!("l"))),
            ("o[\"odd name\"]", Some(json!(1))),
            ("o[\"\"]", Some(json!(2))),
            ("rows[*].id", Some(json!([1, 2]))),
            ("rows[*].tags[*]", Some(json!([["x"], []]))),
            ("rows[*].tags.first", Some(json!(["x"]))),
            ("rows.last", Some(json!(4))),
            ("rows.last.id", None),
            ("none", Some(Value::Null)),
            ("none.x", None),
            ("empty.first", None),
            ("empty.last", None),
            ("empty[*].id", Some(json!([]))),
            ("missing.deep", None),
        ] {
            assert_eq!(at(&v, path), expected, "{path}");
        }
    }

    #[test]
    fn a_plain_walk_does_not_copy() {
        let v = json!({"a": {"b": [1]}});
        assert!(matches!(walk(&v, &"a.b[*]".parse().unwrap()), Some(Cow::Borrowed(_))));
    }

    #[test]
    fn malformed_paths_name_the_place() {
        use ReferenceProblem::*;
        for (text, at, problem) in [
            ("a.", 2, MissingName),
            ("a..b", 2, MissingName),
            ("a.[0]", 2, MissingName),
            ("a b", 1, Unexpected(' ')),
            ("a]", 1, Unexpected(']')),
            ("a[", 1, BadBracket),
            ("a[]", 1, BadBracket),
            ("a[x]", 1, BadBracket),
            ("a[+1]", 1, BadBracket),
            ("a[1.5]", 1, BadBracket),
            ("a[1", 1, BadBracket),
            ("a[99999999999999999999]", 1, BadBracket),
            ("a[\"x]", 1, BadBracket),
            ("a[\"x\"", 1, BadBracket),
            ("a[\"\\q\"]", 1, BadBracket),
        ] {
            let expected = ReferenceError { text: text.into(), at, problem };
            assert_eq!(text.parse::<Path>(), Err(expected));
        }
    }

    #[test]
    fn length_is_bounded() {
        let steps = |n| vec![".a"; n].concat().parse::<Path>().map(|p| p.segments().len());
        assert_eq!(steps(MAX_SEGMENTS), Ok(MAX_SEGMENTS));
        assert_eq!(steps(MAX_SEGMENTS + 1).unwrap_err().problem, ReferenceProblem::TooLong);
        let bare_first = format!("a{}", ".a".repeat(MAX_SEGMENTS));
        assert_eq!(bare_first.parse::<Path>().unwrap_err().problem, ReferenceProblem::TooLong);
        let long = "a".repeat(super::super::syntax::MAX_BYTES + 1);
        assert_eq!(long.parse::<Path>().unwrap_err().problem, ReferenceProblem::TooLong);
        let many = vec![Segment::Each; MAX_SEGMENTS + 1];
        assert_eq!(Path::new(many).unwrap_err().problem, ReferenceProblem::TooLong);
    }
}
