//! Where to cut a history that does not fit, and how to shrink what cannot be cut. Pure: tokens come in, decisions go out.

use crate::content::{Content, ContentPart, LeftOut};
use crate::json::clip;
use crate::model::Block;
use crate::transcript::{Entry, Item, ToolResult, Transcript};
use std::sync::Arc;

/// How many of the newest entries always stay as they are.
const KEPT_ENTRIES: usize = 2;
/// Texts to be summarised are not clipped to fewer bytes than this.
const SHORTEST_CLIP: usize = 120;

/// Where to cut: entries before the index are summarised, the rest stays. `None` when nothing can be cut.
///
/// The rest is as long as `keep_tokens` allows, but never shorter than the newest entries. A cut never divides calls from
/// their results: every provider refuses half a pair.
pub fn cut(
    entries: &[Arc<Entry>],
    tokens: &dyn Fn(&Entry) -> u32,
    keep_tokens: u32,
) -> Option<usize> {
    let mut kept: u32 = 0;
    let mut at = entries.len();
    while let Some(entry) = at.checked_sub(1).and_then(|i| entries.get(i)) {
        kept = kept.saturating_add(tokens(entry));
        let newest = entries.len() - at < KEPT_ENTRIES;
        if kept > keep_tokens && !newest {
            break;
        }
        at -= 1;
    }
    // Results belong to the answer before them, which then goes, too.
    while entries.get(at).is_some_and(|e| matches!(e.item, Item::ToolResults { .. })) {
        at += 1;
    }
    (at > 0 && at < entries.len()).then_some(at)
}

/// Entries as text for the model that summarises them, each clipped to `each` bytes.
pub fn as_text(entries: &[Arc<Entry>], each: usize) -> String {
    let mut out = String::new();
    let mut line = |who: &str, text: &str| {
        let shown = clip(text, each);
        out.push_str(who);
        out.push_str(": ");
        out.push_str(shown);
        if shown.len() < text.len() {
            out.push_str(" […]");
        }
        out.push('\n');
    };
    for entry in entries {
        match &entry.item {
            Item::User { content } => line("User", &content.outline()),
            Item::System { text } => line("Note", text),
            Item::Assistant { blocks } => {
                for block in blocks {
                    match block {
                        Block::Text { text, .. } => line("Assistant", text),
                        Block::ToolCall { name, arguments, .. } => {
                            line("Assistant called", &format!("{name} {arguments}"));
                        }
                        Block::Thinking { .. } | Block::Native { .. } => {}
                    }
                }
            }
            Item::ToolResults { results } => {
                for result in results {
                    line(&format!("Result of {}", result.name), &result.content);
                }
            }
        }
    }
    out
}

/// A conversation as text for the model that summarises it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    /// The text.
    pub text: String,
    /// Bytes that are missing in its middle.
    pub left_out: usize,
}

/// Entries as text of about `most` bytes. Each is clipped to `each` bytes, and to fewer where all of them would be too long:
/// a summary stands for its range for good, so a little of everything is worth more than all of a part. Should even that not
/// do, the middle is left out. The beginning says what the conversation is about, and the end how it stands.
pub fn digest(entries: &[Arc<Entry>], each: usize, most: usize) -> Digest {
    let mut each = each;
    let mut text = as_text(entries, each);
    while text.len() > most && each > SHORTEST_CLIP {
        each = (each / 2).max(SHORTEST_CLIP);
        text = as_text(entries, each);
    }
    match text.len() > most {
        true => without_middle(&text, most),
        false => Digest { text, left_out: 0 },
    }
}

/// The beginning and the end of a text, of half as many bytes each, in whole lines.
fn without_middle(text: &str, most: usize) -> Digest {
    let first = clip(text, most / 2);
    let first = first.rsplit_once('\n').map_or(first, |(whole, _)| whole);
    let from = text.len().saturating_sub(most / 2);
    let from = (from..text.len()).find(|i| text.is_char_boundary(*i)).unwrap_or(text.len());
    let last = text.get(from..).unwrap_or_default();
    let last = last.split_once('\n').map_or(last, |(_, whole)| whole);
    let left_out = text.len().saturating_sub(first.len() + last.len());
    let text = format!("{first}\n[… {left_out} bytes were left out here …]\n{last}");
    Digest { text, left_out }
}

/// Cuts single texts of more than `most` tokens to nearly as many, with a marker where something is missing. `None` when
/// there are none.
pub fn trim_large(
    transcript: &Transcript,
    most: u32,
    tokens: &dyn Fn(&str) -> u32,
) -> Option<Transcript> {
    map_texts(transcript, &mut |marked| {
        let (text, before) = unmarked(marked);
        let kept = beginning(text, most, tokens)?;
        Some(format!("{kept}{MARK}{}{MARK_END}", before + text.len() - kept.len()))
    })
}

/// Where something was left out of a text, with how many bytes it was.
const MARK: &str = "\n[… ";
const MARK_END: &str = " bytes were left out here to fit the model's window]";

/// A text without the marker of an earlier cut, and the bytes that were left out then.
fn unmarked(text: &str) -> (&str, usize) {
    let cut = text.strip_suffix(MARK_END).and_then(|rest| rest.rsplit_once(MARK));
    match cut.and_then(|(kept, bytes)| Some((kept, bytes.parse().ok()?))) {
        Some(cut) => cut,
        None => (text, 0),
    }
}

/// The beginning of a text that has `most` tokens, or a little less. `None` when that is all of it.
fn beginning<'a>(text: &'a str, most: u32, tokens: &dyn Fn(&str) -> u32) -> Option<&'a str> {
    // A token is never shorter than a byte.
    if text.len() <= most as usize || tokens(text) <= most {
        return None;
    }
    let (mut fits, mut exceeds) = ("", text);
    // Each round halves what is in question, so all of them together count about as much as the first.
    loop {
        let middle = clip(text, fits.len() + (exceeds.len() - fits.len()) / 2);
        if middle.len() <= fits.len() {
            return Some(fits);
        }
        let count = tokens(middle);
        if count > most {
            exceeds = middle;
        } else if count >= most - most / 32 {
            return Some(middle);
        } else {
            fits = middle;
        }
    }
}

/// Empties the oldest tool results until `fits` says so. `None` when that does not help.
pub fn drop_old_results(
    transcript: &Transcript,
    fits: &dyn Fn(&Transcript) -> bool,
) -> Option<Transcript> {
    const GONE: &str =
        "[This result was left out to save space. Make the call again if you need it.]";
    let mut current = transcript.clone();
    let count = current.entries().len();
    for index in 0..count.saturating_sub(KEPT_ENTRIES) {
        let Some(entry) = current.entries().get(index) else { continue };
        let Item::ToolResults { results } = &entry.item else { continue };
        let results: Vec<ToolResult> =
            results.iter().map(|r| ToolResult { content: GONE.to_owned(), ..r.clone() }).collect();
        let replaced = Entry::new(Item::ToolResults { results }, entry.source.clone());
        current = current.with_entry(index, replaced);
        if fits(&current) {
            return Some(current);
        }
    }
    None
}

/// Puts a line of text in the place of the oldest images and files until `fits` says so. `None` when that does not help.
pub fn drop_old_media(
    transcript: &Transcript,
    fits: &dyn Fn(&Transcript) -> bool,
) -> Option<Transcript> {
    if transcript.size().media == 0 {
        return None;
    }
    let mut current = transcript.clone();
    let count = current.entries().len();
    for index in 0..count.saturating_sub(KEPT_ENTRIES) {
        let Some(entry) = current.entries().get(index) else { continue };
        let Item::User { content } = &entry.item else { continue };
        let marked = content.map_parts(|p| p.source().map(|_| p.marker(LeftOut::ToFit)));
        let Some(content) = marked else { continue };
        let replaced = Entry::new(Item::User { content }, entry.source.clone());
        current = current.with_entry(index, replaced);
        if fits(&current) {
            return Some(current);
        }
    }
    None
}

fn change_content(
    content: &Content,
    change: &mut dyn FnMut(&str) -> Option<String>,
) -> Option<Item> {
    let content = match content {
        Content::Text(text) => change(text).map(Content::Text),
        Content::Parts(_) => {
            content.map_parts(|part| change(part.as_text()?).map(|text| ContentPart::Text { text }))
        }
    };
    content.map(|content| Item::User { content })
}

fn map_texts(
    transcript: &Transcript,
    change: &mut dyn FnMut(&str) -> Option<String>,
) -> Option<Transcript> {
    let mut out = transcript.clone();
    let mut any = false;
    for (index, entry) in transcript.entries().iter().enumerate() {
        let item = match &entry.item {
            Item::User { content } => change_content(content, change),
            Item::System { text } => change(text).map(|text| Item::System { text }),
            Item::ToolResults { results } => {
                let mut changed = false;
                let mut new = Vec::with_capacity(results.len());
                for result in results {
                    let content = change(&result.content);
                    changed |= content.is_some();
                    let content = content.unwrap_or_else(|| result.content.clone());
                    new.push(ToolResult { content, ..result.clone() });
                }
                changed.then_some(Item::ToolResults { results: new })
            }
            Item::Assistant { blocks } => {
                let mut changed = false;
                let blocks = blocks.iter().map(|block| match block {
                    // What a provider knows by an id or has signed must come back as it was.
                    Block::Text { text, native: None } => match change(text) {
                        Some(text) => {
                            changed = true;
                            Block::Text { text, native: None }
                        }
                        None => block.clone(),
                    },
                    _ => block.clone(),
                });
                let blocks = blocks.collect();
                changed.then_some(Item::Assistant { blocks })
            }
        };
        if let Some(item) = item {
            out = out.with_entry(index, Entry::new(item, entry.source.clone()));
            any = true;
        }
    }
    any.then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::{Native, NativeBlock};
    use proptest::prelude::*;
    use serde_json::json;

    fn user(text: &str) -> Arc<Entry> {
        Entry::new(Item::user(text), None)
    }

    fn call(id: &str) -> Arc<Entry> {
        let block = Block::ToolCall {
            wire_id: id.into(),
            name: "search".into(),
            arguments: "{}".into(),
            native: None,
        };
        Entry::new(Item::Assistant { blocks: vec![block] }, None)
    }

    fn result(id: &str, content: &str) -> Arc<Entry> {
        let result = ToolResult {
            wire_id: id.into(),
            name: "search".into(),
            content: content.into(),
            is_error: false,
        };
        Entry::new(Item::ToolResults { results: vec![result] }, None)
    }

    fn size(entry: &Entry) -> u32 {
        as_text(&[Entry::new(entry.item.clone(), None)], usize::MAX).len() as u32
    }

    #[test]
    fn a_cut_keeps_the_newest_and_never_divides_a_call_from_its_result() {
        let entries =
            [user("old"), call("a"), result("a", &"x".repeat(100)), user("new"), user("newest")];
        // The budget would end within the pair; the result goes with its call.
        assert_eq!(cut(&entries, &size, 140), Some(3));
        assert_eq!(cut(&entries, &size, 10_000), None);
        assert_eq!(cut(&entries, &size, 0), Some(3));
    }

    #[test]
    fn what_is_to_be_summarised_is_clipped_shorter_before_any_of_it_is_left_out() {
        let entries: Vec<_> = (0..8).map(|n| user(&format!("{n}{}", "z".repeat(1_999)))).collect();
        let whole = digest(&entries, 4_000, 20_000);
        assert_eq!(whole, Digest { text: as_text(&entries, 4_000), left_out: 0 });
        // A thousand bytes of each would be too many, and half of that are not.
        let clipped = digest(&entries, 4_000, 5_000);
        assert_eq!(clipped, Digest { text: as_text(&entries, 500), left_out: 0 });
        let missing = digest(&entries, 4_000, 600);
        let lines = |range: &[Arc<Entry>]| as_text(range, SHORTEST_CLIP);
        let left_out = lines(&entries[2..6]).len() + 1;
        let marked = format!(
            "{}[… {left_out} bytes were left out here …]\n{}",
            lines(&entries[..2]),
            lines(&entries[6..])
        );
        assert_eq!(missing, Digest { text: marked, left_out });
    }

    #[test]
    fn one_large_message_is_trimmed_with_a_marker() {
        let mut t = Transcript::default();
        t.push(user(&"y".repeat(500)));
        // Twenty bytes are a token here.
        let tokens = |text: &str| text.len().div_ceil(20) as u32;
        let trimmed = trim_large(&t, 5, &tokens).unwrap();
        let Item::User { content } = &trimmed.entries()[0].item else { panic!() };
        let marked = |kept: usize| {
            let (kept, gone) = ("y".repeat(kept), 500 - kept);
            format!("{kept}\n[… {gone} bytes were left out here to fit the model's window]")
        };
        assert_eq!(content.text(), marked(93));
        // The mark is not counted, and one that is cut again tells of all that is gone.
        assert!(trim_large(&trimmed, 5, &tokens).is_none());
        let again = trim_large(&trimmed, 2, &tokens).unwrap();
        let Item::User { content } = &again.entries()[0].item else { panic!() };
        assert_eq!(content.text(), marked(23));
    }

    #[test]
    fn a_large_answer_is_trimmed_unless_its_provider_knows_it() {
        let said = |native: Option<Native>| Block::Text { text: "y".repeat(500), native };
        let native = NativeBlock {
            wire: "w".into(),
            provider: "p".into(),
            model: "m".into(),
            data: json!("signature").into(),
        };
        let known = said(Some(native.into()));
        let mut t = Transcript::default();
        t.push(Entry::new(Item::Assistant { blocks: vec![said(None), known.clone()] }, None));
        let trimmed = trim_large(&t, 100, &|text| text.len() as u32).unwrap();
        let Item::Assistant { blocks } = &trimmed.entries()[0].item else { panic!() };
        let Block::Text { text, native: None } = &blocks[0] else { panic!("{blocks:?}") };
        assert!(text.ends_with(" bytes were left out here to fit the model's window]"), "{text}");
        assert!(text.len() < 200, "{text}");
        assert_eq!(blocks[1], known);
    }

    #[test]
    fn the_oldest_results_go_first() {
        let mut t = Transcript::default();
        for entry in [
            call("a"),
            result("a", "first"),
            call("b"),
            result("b", "second"),
            user("x"),
            user("y"),
        ] {
            t.push(entry);
        }
        let total = |t: &Transcript| t.entries().iter().map(|e| size(e)).sum::<u32>();
        let before = total(&t);
        let shrunk = drop_old_results(&t, &|t| total(t) != before).unwrap();
        assert!(as_text(shrunk.entries(), 1000).contains("second"));
        assert!(!as_text(shrunk.entries(), 1000).contains("first"));
    }

    #[test]
    fn the_oldest_images_give_way_to_a_line_and_the_newest_stay() {
        let shown = |name: &str| {
            let parts = json!([{"type": "text", "text": name}, {"type": "image", "mime": "image/png",
                "source": {"url": "https://example.com/a.png"}}]);
            Entry::new(Item::User { content: serde_json::from_value(parts).unwrap() }, None)
        };
        let mut t = Transcript::default();
        for name in ["a", "b", "c", "d"] {
            t.push(shown(name));
        }
        let left = |most: u64| {
            let dropped = drop_old_media(&t, &|t| t.size().media <= most)?;
            let media = |e: &Arc<Entry>| e.item.size().media;
            Some(dropped.entries().iter().map(media).collect::<Vec<_>>())
        };
        assert_eq!(left(3), Some(vec![0, 1, 1, 1]));
        assert_eq!(left(2), Some(vec![0, 0, 1, 1]));
        assert_eq!(left(1), None);
        let one = drop_old_media(&t, &|t| t.size().media <= 3).unwrap();
        assert!(as_text(one.entries(), 1000).contains(
            "User: a\n[image, image/png, at https://example.com/a.png: left out to save space]\n"
        ));
    }

    proptest! {
        #[test]
        fn a_trimmed_text_has_nearly_as_many_tokens_as_it_may(
            text in "[ -~äöü日本語]{0,300}",
            most in 1..200u32,
        ) {
            // A tokenizer to which letters cost more than the rest.
            let one = |c: char| if c.is_ascii_lowercase() { 1 } else { c.len_utf8() as u32 };
            let tokens = |text: &str| text.chars().map(one).sum::<u32>();
            match beginning(&text, most, &tokens) {
                None => prop_assert!(tokens(&text) <= most),
                Some(kept) => {
                    prop_assert!(text.starts_with(kept));
                    // A cut may miss two characters of three tokens each.
                    prop_assert!((most - most / 32..=most + 6).contains(&(tokens(kept) + 6)));
                    prop_assert!(tokens(kept) <= most);
                }
            }
        }

        #[test]
        fn a_digest_is_hardly_longer_than_it_may_be_and_has_both_ends(
            texts in prop::collection::vec("[a-z日\n]{0,400}", 1..60),
            each in 1..5_000usize,
            most in 0..20_000usize,
        ) {
            let entries: Vec<_> = texts.iter().map(|t| user(t)).collect();
            let Digest { text, left_out } = digest(&entries, each, most);
            prop_assert!(text.len() <= most + 80);
            prop_assert_eq!(left_out > 0, text.contains("bytes were left out here …]"));
            if most > 2_000 {
                prop_assert!(text.starts_with("User: "));
            }
        }

        #[test]
        fn whatever_the_history_no_result_is_left_without_its_call(
            kinds in prop::collection::vec(0..3u8, 0..30),
            keep in 0..2000u32,
        ) {
            let mut entries = Vec::new();
            for (i, kind) in kinds.iter().enumerate() {
                if *kind == 0 {
                    entries.push(call(&i.to_string()));
                    entries.push(result(&i.to_string(), "some result"));
                } else {
                    entries.push(user("some text"));
                }
            }
            if let Some(at) = cut(&entries, &size, keep) {
                prop_assert!(at > 0 && at < entries.len());
                prop_assert!(!matches!(entries[at].item, Item::ToolResults { .. }), "divided at {}", at);
            }
        }
    }
}
