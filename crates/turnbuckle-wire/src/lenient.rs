//! Field types that read what servers really send: absent, null, a number where text belongs, or something else entirely.
//!
//! A field of the wrong type is an absent field, never a broken frame. Strings are borrowed from the frame where they
//! hold no escapes, so that reading a delta allocates nothing.

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use serde_path_to_error::{Path, Segment, Track};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// A string. Numbers count as their text; anything else is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Text<'a>(pub Option<Cow<'a, str>>);

impl Text<'_> {
    /// The text, when there is any.
    #[inline]
    pub fn filled(&self) -> Option<&str> {
        self.0.as_deref().filter(|t| !t.is_empty())
    }

    /// The text, empty when absent.
    pub fn or_empty(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }
    #[inline]
    fn visit_borrowed_str<E>(self, v: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Some(Cow::Borrowed(v))))
    }
    fn visit_str<E>(self, v: &str) -> Result<Self::Value, E> {
        Ok(Text(Some(Cow::Owned(v.to_owned()))))
    }
    fn visit_string<E>(self, v: String) -> Result<Self::Value, E> {
        Ok(Text(Some(Cow::Owned(v))))
    }
    fn visit_u64<E>(self, v: u64) -> Result<Self::Value, E> {
        Ok(Text(Some(Cow::Owned(v.to_string()))))
    }
    fn visit_i64<E>(self, v: i64) -> Result<Self::Value, E> {
        Ok(Text(Some(Cow::Owned(v.to_string()))))
    }
    fn visit_f64<E>(self, v: f64) -> Result<Self::Value, E> {
        Ok(Text(Some(Cow::Owned(v.to_string()))))
    }
    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Text(None))
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Text(None))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        skip_seq(seq).map(|()| Text(None))
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        skip_map(map).map(|()| Text(None))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    #[inline]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

/// A whole number that is not negative. Text and floats that hold one count; anything else is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count(pub Option<u64>);

struct CountVisitor;

impl<'de> Visitor<'de> for CountVisitor {
    type Value = Count;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }
    fn visit_u64<E>(self, v: u64) -> Result<Count, E> {
        Ok(Count(Some(v)))
    }
    fn visit_i64<E>(self, v: i64) -> Result<Count, E> {
        Ok(Count(u64::try_from(v).ok()))
    }
    fn visit_f64<E>(self, v: f64) -> Result<Count, E> {
        // A float cast saturates, so that the largest counts stay large instead of wrapping.
        Ok(Count((v >= 0.0).then_some(v as u64)))
    }
    fn visit_str<E>(self, v: &str) -> Result<Count, E> {
        Ok(Count(v.trim().parse().ok()))
    }
    fn visit_bool<E>(self, _: bool) -> Result<Count, E> {
        Ok(Count(None))
    }
    fn visit_unit<E>(self) -> Result<Count, E> {
        Ok(Count(None))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Count, A::Error> {
        skip_seq(seq).map(|()| Count(None))
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Count, A::Error> {
        skip_map(map).map(|()| Count(None))
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CountVisitor)
    }
}

/// An object of type `T`; anything that is no object is absent. Boxed, since it is rare and frames are moved about: their
/// size is what reading them costs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Maybe<T>(pub Option<Box<T>>);

impl<T> Default for Maybe<T> {
    fn default() -> Self {
        Self(None)
    }
}

struct MaybeVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for MaybeVisitor<T> {
    type Value = Maybe<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(|v| Maybe(Some(Box::new(v))))
    }
    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Maybe(None))
    }
    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Maybe(None))
    }
    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Maybe(None))
    }
    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Maybe(None))
    }
    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Maybe(None))
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Maybe(None))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        skip_seq(seq).map(|()| Maybe(None))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Maybe<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MaybeVisitor(PhantomData))
    }
}

/// Tool arguments: JSON as text, or, from servers that parse it for us, an object that becomes text again.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Arguments<'a>(pub Option<Cow<'a, str>>);

struct ArgumentsVisitor;

impl<'de> Visitor<'de> for ArgumentsVisitor {
    type Value = Arguments<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("arguments")
    }
    #[inline]
    fn visit_borrowed_str<E>(self, v: &'de str) -> Result<Self::Value, E> {
        Ok(Arguments(Some(Cow::Borrowed(v))))
    }
    fn visit_str<E>(self, v: &str) -> Result<Self::Value, E> {
        Ok(Arguments(Some(Cow::Owned(v.to_owned()))))
    }
    fn visit_string<E>(self, v: String) -> Result<Self::Value, E> {
        Ok(Arguments(Some(Cow::Owned(v))))
    }
    fn visit_u64<E>(self, v: u64) -> Result<Self::Value, E> {
        Ok(Arguments(Some(Cow::Owned(v.to_string()))))
    }
    fn visit_i64<E>(self, v: i64) -> Result<Self::Value, E> {
        Ok(Arguments(Some(Cow::Owned(v.to_string()))))
    }
    fn visit_f64<E>(self, v: f64) -> Result<Self::Value, E> {
        Ok(Arguments(Some(Cow::Owned(v.to_string()))))
    }
    fn visit_bool<E>(self, v: bool) -> Result<Self::Value, E> {
        Ok(Arguments(Some(Cow::Owned(v.to_string()))))
    }
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Arguments(None))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element::<serde_json::Value>()? {
            items.push(item);
        }
        Ok(Arguments(Some(Cow::Owned(serde_json::Value::Array(items).to_string()))))
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let value = serde_json::Value::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Arguments(Some(Cow::Owned(value.to_string()))))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Arguments<'a> {
    #[inline]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ArgumentsVisitor)
    }
}

pub(crate) fn skip_seq<'de, A: SeqAccess<'de>>(mut seq: A) -> Result<(), A::Error> {
    while seq.next_element::<IgnoredAny>()?.is_some() {}
    Ok(())
}

pub(crate) fn skip_map<'de, A: MapAccess<'de>>(mut map: A) -> Result<(), A::Error> {
    while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
    Ok(())
}

/// A member that is passed over: stands in for [`Text`] in frames whose head is known already.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Skip;

impl<'de> Deserialize<'de> for Skip {
    #[inline]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Skip)
    }
}

/// Reads a frame. The whole is checked for UTF-8 once, which is cheaper than checking each string of it.
///
/// One that is JSON but breaks a type's rules is read again without what breaks them: of a repeated member the last wins, and
/// a value of the wrong type is absent. Bytes that are no UTF-8 become replacement characters.
#[inline]
pub(crate) fn read<'a, T: Deserialize<'a>>(
    data: &'a [u8],
    spare: &'a mut Vec<u8>,
) -> Result<T, serde_json::Error> {
    match std::str::from_utf8(data) {
        Ok(text) => serde_json::from_str(text).or_else(|_| mend(text, spare)),
        Err(_) => mend(&String::from_utf8_lossy(data), spare),
    }
}

/// What stands within a frame, to be [read]; whatever is no object counts as an empty one.
pub(crate) fn within(raw: &RawValue) -> &[u8] {
    let text = raw.get();
    if text.starts_with('{') { text.as_bytes() } else { b"{}" }
}

/// A frame with more values out of place than this is of another protocol.
const MENDED_VALUES: usize = 8;
/// Each value that is out of place takes a copy of the frame, so that of a large one fewer are mended.
const MENDED_BYTES: usize = 1 << 20;

/// Reads a frame without what keeps it from being read, taken out one by one.
#[cold]
fn mend<'a, T: Deserialize<'a>>(
    text: &str,
    spare: &'a mut Vec<u8>,
) -> Result<T, serde_json::Error> {
    let mut tree: Value = serde_json::from_str(text)?;
    // What is read may be borrowed from any attempt, so each has a place of its own.
    let most = serde_json::to_vec(&tree)?.len();
    spare.resize(most * (1 + MENDED_VALUES.min(MENDED_BYTES / most)), 0);
    let mut first = None;
    for room in spare.chunks_exact_mut(most) {
        let text = serde_json::to_vec(&tree)?;
        let (here, _) = room.split_at_mut(text.len());
        here.copy_from_slice(&text);
        let mut track = Track::new();
        let mut json = serde_json::Deserializer::from_slice(here);
        match T::deserialize(serde_path_to_error::Deserializer::new(&mut json, &mut track)) {
            Ok(frame) => return Ok(frame),
            Err(wrong) => first.get_or_insert(wrong),
        };
        if !remove(&mut tree, &track.path()) {
            break;
        }
    }
    Err(first.unwrap_or_else(|| de::Error::custom("the frame cannot be mended")))
}

/// Removes the value at a path; `false` when there is none below the root.
fn remove(tree: &mut Value, path: &Path) -> bool {
    let steps: Vec<_> = path.iter().filter(|step| !matches!(step, Segment::Unknown)).collect();
    let Some((last, above)) = steps.split_last() else { return false };
    let holder = above.iter().try_fold(tree, |at, step| match step {
        Segment::Map { key } => at.get_mut(key),
        Segment::Seq { index } => at.get_mut(index),
        _ => None,
    });
    match (holder, last) {
        (Some(Value::Object(map)), Segment::Map { key }) => map.remove(key).is_some(),
        (Some(Value::Array(items)), Segment::Seq { index }) if *index < items.len() => {
            items.remove(*index);
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(default)]
    struct Probe<'a> {
        #[serde(borrow)]
        text: Text<'a>,
        count: Count,
        inner: Maybe<Inner>,
        #[serde(borrow)]
        arguments: Arguments<'a>,
    }

    #[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
    #[serde(default)]
    struct Inner {
        n: Count,
    }

    fn probe(json: &str) -> (Option<String>, Option<u64>, Option<u64>, Option<String>) {
        let p: Probe<'_> = serde_json::from_str(json).unwrap();
        (
            p.text.0.map(Cow::into_owned),
            p.count.0,
            p.inner.0.and_then(|i| i.n.0),
            p.arguments.0.map(Cow::into_owned),
        )
    }

    #[test]
    fn fields_of_the_wrong_type_are_absent() {
        let right = r#"{"text":"a","count":3,"inner":{"n":4},"arguments":"{}"}"#;
        assert_eq!(probe(right), (Some("a".into()), Some(3), Some(4), Some("{}".into())));
        for wrong in ["null", "true", "[1]", "{\"x\":1}"] {
            let json = format!(r#"{{"text":{wrong},"count":{wrong},"inner":{{"n":{wrong}}}}}"#);
            assert_eq!(probe(&json), (None, None, None, None), "{wrong}");
        }
        for wrong in ["null", "true", "[1]", "1", "-1", "1.5", "\"x\""] {
            assert_eq!(probe(&format!(r#"{{"inner":{wrong}}}"#)).2, None, "{wrong}");
        }
        assert_eq!(probe(r#"{"text":7,"count":"12"}"#), (Some("7".into()), Some(12), None, None));
        assert_eq!(probe(r#"{"count":-1}"#).1, None);
        assert_eq!(probe(r#"{"count":5.0}"#).1, Some(5));
        assert_eq!(probe(r#"{"arguments":{"a":[1]}}"#).3.as_deref(), Some(r#"{"a":[1]}"#));
    }

    #[test]
    fn plain_strings_are_borrowed() {
        let p: Probe<'_> = serde_json::from_str(r#"{"text":"plain","arguments":"{}"}"#).unwrap();
        assert!(matches!(
            (p.text.0, p.arguments.0),
            (Some(Cow::Borrowed(_)), Some(Cow::Borrowed(_)))
        ));
    }

    #[test]
    fn bytes_that_are_no_text_become_replacement_characters() {
        let mut spare = Vec::new();
        let p: Probe<'_> = read(b"{\"text\":\"a\xffb\"}", &mut spare).unwrap();
        assert_eq!(p.text.0.as_deref(), Some("a\u{fffd}b"));
    }

    #[test]
    fn of_a_repeated_member_the_last_wins() {
        let mut spare = Vec::new();
        let p: Probe<'_> = read(br#"{"count":1,"count":2}"#, &mut spare).unwrap();
        assert_eq!(p.count.0, Some(2));
    }

    #[test]
    fn what_a_type_cannot_hold_is_taken_out_of_the_frame() {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Strict<'a> {
            #[serde(borrow)]
            list: Vec<Probe<'a>>,
            number: Option<u64>,
            #[serde(borrow)]
            raw: Option<&'a RawValue>,
        }
        let read_strict = |json: &str| {
            let mut spare = Vec::new();
            let s: Result<Strict<'_>, _> = read(json.as_bytes(), &mut spare);
            let text = |p: &Probe<'_>| p.text.or_empty().to_owned();
            s.map(|s| (s.list.iter().map(text).collect::<Vec<_>>(), s.number, s.raw.is_some()))
                .map_err(|e| e.to_string())
        };
        let list = r#"{"list":[3,{"text":"a"},"x",{"text":"b"}],"number":"no","raw":{"list":1}}"#;
        assert_eq!(read_strict(list), Ok((vec!["a".into(), "b".into()], None, true)));
        assert_eq!(read_strict(r#"{"list":"x","number":4}"#), Ok((vec![], Some(4), false)));
        let many = format!(r#"{{"list":{:?}}}"#, vec![1; 20]);
        assert!(read_strict(&many).unwrap_err().contains("invalid type"));
        // Of a large frame fewer are mended, and one that only repeats a member always is.
        let large = "x".repeat(MENDED_BYTES);
        let twice = format!(r#"{{"number":1,"number":2,"list":[{{"text":"{large}"}}]}}"#);
        assert_eq!(read_strict(&twice), Ok((vec![large.clone()], Some(2), false)));
        let wrong = format!(r#"{{"number":"no","list":[{{"text":"{large}"}}]}}"#);
        assert!(read_strict(&wrong).unwrap_err().contains("invalid type"));
        assert!(read_strict("7").unwrap_err().contains("invalid type"));
        assert!(read_strict("{\"list\":[").unwrap_err().contains("EOF"));
        let odd = b"{\"text\":\"a\xff\",\"arguments\":1e999}";
        assert!(read::<Probe<'_>>(odd, &mut Vec::new()).is_err());
    }

    #[test]
    fn what_is_no_object_within_a_frame_is_an_empty_one() {
        for text in ["3", "null", "\"x\"", "[1]"] {
            let raw: &RawValue = serde_json::from_str(text).unwrap();
            let mut spare = Vec::new();
            assert_eq!(read::<Probe<'_>>(within(raw), &mut spare).unwrap(), Probe::default());
        }
    }
}
