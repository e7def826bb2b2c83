//! Event streams.

use crate::api::Api;
use crate::auth::access::Want;
use crate::auth::principal::Principal;
use crate::dto::{EventPage, EventsQuery};
use crate::live::{Dialect, Native, Place, Reader, Until, Wishes, begin};
use crate::problem::{Answer, Code, Problem};
use crate::request::limit;
use crate::streams;
use bytes::Bytes;
use futures_util::Stream;
use std::convert::Infallible;
use std::time::Duration;

/// A session being watched.
pub struct Watching {
    reader: Reader,
    /// Given back when the stream ends.
    _place: streams::Place,
}

impl Watching {
    /// The reader, for frames that stand before all events.
    pub fn reader(&mut self) -> &mut Reader {
        &mut self.reader
    }

    /// The body of the answer.
    pub fn into_stream(self) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
        // Boxed: the stream has room for it twice, between two reads and during one.
        futures_util::stream::unfold(Box::new(self), |mut watching| async move {
            let bytes = watching.reader.next().await?;
            Some((Ok(bytes), watching))
        })
    }
}

impl Api {
    /// Watches a session from a place on; without one, from now on.
    ///
    /// # Errors
    /// Those of [`session`](Self::session); `too_many_streams`; when the place is none; the store's.
    pub async fn watch(
        &self,
        who: &Principal,
        id: &str,
        after: Option<&str>,
        until: Option<Until>,
    ) -> Answer<Watching> {
        self.watch_as(who, id, after, until, Box::new(Native)).await
    }

    /// As [`watch`](Self::watch), written in another dialect.
    ///
    /// # Errors
    /// As [`watch`](Self::watch).
    pub async fn watch_as(
        &self,
        who: &Principal,
        id: &str,
        after: Option<&str>,
        until: Option<Until>,
        dialect: Box<dyn Dialect>,
    ) -> Answer<Watching> {
        let key = self.session(who, id, Want::Read).await?.key;
        let place = after.map(place).transpose()?;
        let Some(slot) = self.streams().enter(&who.tenant, &who.user) else {
            let detail = "Close other streams first; one per page is enough.";
            return Err(Problem::new(Code::TooManyStreams, detail).retry_after(5));
        };
        // First the watch, then the store: nothing falls between the two.
        let watch = self.bus().watch(&key).await;
        let session = self.store().session(&key).await?;
        let place = place.unwrap_or_else(|| Place::stored(session.next_seq.saturating_sub(1)));
        let follow = begin(&**self.store(), &key, &session, place).await?;
        let streams = &self.options().streams;
        let left = who.until.map(|until| Duration::from_millis(until.since(self.now())));
        let wishes = Wishes {
            until,
            gather: streams.gather,
            keep_alive: streams.keep_alive,
            longest: left.map_or(streams.longest, |left| left.min(streams.longest)),
        };
        let (store, bus) = (self.store().clone(), self.bus().clone());
        let reader =
            Reader::new(store, bus, watch, follow, wishes, dialect, self.shutdown().clone());
        Ok(Watching { reader, _place: slot })
    }

    /// A page of stored events.
    ///
    /// # Errors
    /// Those of [`session`](Self::session); when the query is wrong; the store's.
    pub async fn events(&self, who: &Principal, id: &str, query: EventsQuery) -> Answer<EventPage> {
        let key = self.session(who, id, Want::Read).await?.key;
        let most = limit(query.limit, 500, 1000)?;
        let after = query.after.as_deref().map(place).transpose()?;
        let after = after.map_or(0, |place| place.seq);
        let items = self.store().events(&key, after, most).await?;
        let full = items.len() == most as usize;
        let next = items.last().filter(|_| full).map(|event| event.seq.to_string());
        Ok(EventPage { items, next })
    }
}

fn place(text: &str) -> Answer<Place> {
    text.parse().map_err(|e| Problem::field("after", format!("{e}")))
}
