//! What a session's events are written as.

use super::follow::Place;
use super::frame::Frames;
use crate::dto::TurnEnd;
use std::borrow::Cow;
use turnbuckle_bus::Live;
use turnbuckle_core::event::Event;

/// Whether there is more to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The stream goes on.
    On,
    /// It ends with what is written by now.
    End,
}

/// An event as it reached the reader.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// The event.
    pub event: &'a Event,
    live: Option<(&'a Live, usize)>,
}

impl<'a> Told<'a> {
    /// The event of this index among those that happen.
    pub fn live(event: &'a Event, live: &'a Live, index: usize) -> Self {
        Self { event, live: Some((live, index)) }
    }

    /// One from the store.
    pub fn stored(event: &'a Event) -> Self {
        Self { event, live: None }
    }

    /// It as one line of JSON. For what happens, that is made once for all who read it.
    pub fn line(&self) -> Cow<'a, str> {
        match self.live.and_then(|(live, index)| live.lines().get(index)) {
            Some(line) => Cow::Borrowed(line),
            // An event has JSON.
            None => Cow::Owned(serde_json::to_string(self.event).unwrap_or_default()),
        }
    }
}

/// Writes a session's events for one reader. It is told every event once and in order; an event whose number is not higher than
/// that of the one before takes back all from that number on.
pub trait Dialect: Send + Sync {
    /// The stream begins.
    fn begin(&mut self, frames: &mut Frames) {
        let _ = frames;
    }

    /// An event.
    fn event(&mut self, place: Place, told: &Told<'_>, frames: &mut Frames) -> Flow;

    /// Everything that was told up to `seq` is stored, and will not be taken back.
    fn stored(&mut self, seq: u64) {
        let _ = seq;
    }

    /// A turn ended, or waits.
    fn turn_end(&mut self, end: &TurnEnd, frames: &mut Frames);

    /// The session's title is another than the events said, since somebody gave it one.
    fn title(&mut self, title: &str, frames: &mut Frames);

    /// The session is gone. Nothing follows.
    fn deleted(&mut self, frames: &mut Frames);

    /// The stream ends before its time, and the reader shall come again. Nothing follows.
    fn bye(&mut self, why: &'static str, frames: &mut Frames);

    /// Nothing follows, whatever was told before. A protocol whose streams must end with a word of it says that here, unless it
    /// was said.
    fn done(&mut self, frames: &mut Frames) {
        let _ = frames;
    }
}

/// How long a client waits before it connects again, in milliseconds.
const RETRY_MS: u32 = 1000;

/// The events as they are, each with its place.
#[derive(Clone, Copy, Debug, Default)]
pub struct Native;

impl Dialect for Native {
    fn begin(&mut self, frames: &mut Frames) {
        frames.retry(RETRY_MS);
    }

    fn event(&mut self, place: Place, told: &Told<'_>, frames: &mut Frames) -> Flow {
        frames.event(place, &told.line());
        Flow::On
    }

    fn turn_end(&mut self, end: &TurnEnd, frames: &mut Frames) {
        frames.turn_end(end);
    }

    fn title(&mut self, title: &str, frames: &mut Frames) {
        frames.title(title);
    }

    fn deleted(&mut self, frames: &mut Frames) {
        frames.deleted();
    }

    fn bye(&mut self, why: &'static str, frames: &mut Frames) {
        frames.bye(why);
    }
}
