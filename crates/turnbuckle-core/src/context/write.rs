//! Writing into a JSON value by path. A write happens whole or not at all.

use super::path::Segment;
use super::size::json_len;
use serde_json::{Map, Value};

/// A path that cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// The step has no single place.
    #[error("`{0}` does not name one place to write to; use names and single positions")]
    NotAPlace(Segment),
    /// The array has no such element.
    #[error("there is no element `{segment}` among {len}; write the whole array to add one")]
    NoElement {
        /// The step.
        segment: Segment,
        /// Elements there are.
        len: usize,
    },
    /// What is there has no properties or elements.
    #[error("`{segment}` leads into a {found}; overwrite that first if it is no longer wanted")]
    NotAContainer {
        /// The step.
        segment: Segment,
        /// The type that was found.
        found: &'static str,
    },
}

/// Puts `value` where `segments` lead, making objects for what is missing or null. Gives the growth in serialized bytes.
pub(super) fn write(
    slot: &mut Value,
    segments: &[Segment],
    value: Value,
) -> Result<isize, WriteError> {
    let Some((segment, tail)) = segments.split_first() else {
        let growth = difference(json_len(&value), json_len(slot));
        *slot = value;
        return Ok(growth);
    };
    match slot {
        Value::Null => {
            let built = nest(segments, value)?;
            write(slot, &[], built)
        }
        Value::Object(map) => {
            let key = segment.key().ok_or_else(|| WriteError::NotAPlace(segment.clone()))?;
            if let Some(child) = map.get_mut(&*key) {
                return write(child, tail, value);
            }
            let built = nest(tail, value)?;
            let comma = usize::from(!map.is_empty());
            let growth = comma + json_len(&*key) + 1 + json_len(&built);
            map.insert(key.into_owned(), built);
            Ok(difference(growth, 0))
        }
        Value::Array(items) => {
            let len = items.len();
            if *segment == Segment::Each {
                return Err(WriteError::NotAPlace(segment.clone()));
            }
            match segment.position(len).and_then(|position| items.get_mut(position)) {
                Some(child) => write(child, tail, value),
                None => Err(WriteError::NoElement { segment: segment.clone(), len }),
            }
        }
        leaf => {
            let found = match leaf {
                Value::Bool(_) => "boolean",
                Value::Number(_) => "number",
                _ => "text",
            };
            Err(WriteError::NotAContainer { segment: segment.clone(), found })
        }
    }
}

/// `value` inside the objects that `segments` name.
pub(super) fn nest(segments: &[Segment], value: Value) -> Result<Value, WriteError> {
    segments.iter().rev().try_fold(value, |inner, segment| {
        let key = segment.key().ok_or_else(|| WriteError::NotAPlace(segment.clone()))?;
        Ok(Value::Object(Map::from_iter([(key.into_owned(), inner)])))
    })
}

fn difference(new: usize, old: usize) -> isize {
    // Sizes are those of values in memory, which are below isize::MAX.
    new as isize - old as isize
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn written(mut value: Value, path: &str, new: Value) -> Result<Value, WriteError> {
        let before = value.clone();
        let path: super::super::Path = path.parse().unwrap();
        match write(&mut value, path.segments(), new) {
            Ok(growth) => {
                assert_eq!(growth, difference(json_len(&value), json_len(&before)), "{path}");
                Ok(value)
            }
            Err(error) => {
                assert_eq!(value, before, "a refused write changes nothing");
                Err(error)
            }
        }
    }

    #[test]
    fn makes_objects_and_replaces_elements() {
        for (before, path, expected) in [
            (json!(null), "", json!(1)),
            (json!(null), "a.b", json!({"a": {"b": 1}})),
            (json!({"a": null}), "a.b", json!({"a": {"b": 1}})),
            (json!({"x": 0}), "a.0.first", json!({"a": {"0": {"first": 1}}, "x": 0})),
            (json!({"a": "old"}), "a", json!({"a": 1})),
            (json!([7, 8]), "[0]", json!([1, 8])),
            (json!([7, 8]), "[-1]", json!([7, 1])),
            (json!([7, {}]), "last.k", json!([7, {"k": 1}])),
            (json!({}), "[\"a.b\"]", json!({"a.b": 1})),
        ] {
            assert_eq!(written(before, path, json!(1)), Ok(expected), "{path}");
        }
    }

    #[test]
    fn refuses_what_has_no_one_place() {
        let index = |i| Segment::Index(i);
        let key = |k: &str| Segment::Key(k.into());
        for (before, path, expected) in [
            (json!([1, 2]), "[*]", WriteError::NotAPlace(Segment::Each)),
            (json!([1, 2]), "[2]", WriteError::NoElement { segment: index(2), len: 2 }),
            (json!([1, 2]), "name", WriteError::NoElement { segment: key("name"), len: 2 }),
            (json!([]), "last", WriteError::NoElement { segment: Segment::Last, len: 0 }),
            (json!({}), "[0]", WriteError::NotAPlace(index(0))),
            (json!({}), "a.b[0]", WriteError::NotAPlace(index(0))),
            (json!(null), "a[*]", WriteError::NotAPlace(Segment::Each)),
            (
                json!({"a": "t"}),
                "a.b",
                WriteError::NotAContainer { segment: key("b"), found: "text" },
            ),
            (json!(5), "a", WriteError::NotAContainer { segment: key("a"), found: "number" }),
            (json!(true), "a", WriteError::NotAContainer { segment: key("a"), found: "boolean" }),
        ] {
            assert_eq!(written(before, path, json!(1)), Err(expected), "{path}");
        }
    }
}
