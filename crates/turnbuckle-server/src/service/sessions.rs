//! Creating, listing, reading, copying and deleting sessions.

use crate::api::Api;
use crate::auth::access::{Want, Whose, needs, whose};
use crate::auth::principal::Principal;
use crate::digest::digest;
use crate::dto::{
    MessagePage, MessagesQuery, NewFork, NewSession, Page, QueuedKind, QueuedView, Role,
    SessionDetail, SessionView, SessionsQuery,
};
use crate::problem::{Answer, Code, Problem};
use crate::request::{limit, text};
use tokio::time::Instant;
use turnbuckle_bus::{Heard, Notice};
use turnbuckle_core::ids::{AgentName, SessionId};
use turnbuckle_core::model::ModelRef;
use turnbuckle_store::{
    Conflict, Fork, ForkAt, InboxItem, Posted, Session, SessionQuery, StoreError,
};

/// Characters of a title.
const TITLE: usize = 200;

impl Api {
    /// Creates a session of the caller.
    ///
    /// # Errors
    /// When a field is wrong; the store's.
    pub async fn create_session(
        &self,
        who: &Principal,
        new: NewSession,
        idempotency_key: Option<&str>,
    ) -> Answer<SessionView> {
        needs(who, Role::User)?;
        let agents = self.engine().domain().agents();
        let agent = match new.agent.as_deref().or(self.options().default_agent.as_deref()) {
            Some(name) if agents.contains_key(name) => AgentName::from(name),
            Some(_) => return Err(Problem::field("agent", "there is no such agent")),
            None => return Err(Problem::field("agent", "must be given")),
        };
        if let Some(title) = &new.title {
            text("title", title, TITLE)?;
        }
        model("model", new.model.as_deref())?;
        let key = who.session(&self.new_id(who, "session", idempotency_key));
        let wish = turnbuckle_store::NewSession {
            key: key.clone(),
            user: who.user.clone(),
            agent,
            title: new.title,
            model: new.model,
            state: None,
            now: self.now(),
        };
        match self.store().create_session(wish.clone()).await {
            Ok(session) => Ok(session.into()),
            Err(StoreError::Conflict { what: Conflict::SessionExists(_) })
                if idempotency_key.is_some() =>
            {
                let reused = || reused("It created a session that is another, or deleted.");
                let known = self.store().session(&key).await.map_err(|e| match e {
                    StoreError::NotFound { .. } => reused(),
                    other => other.into(),
                })?;
                let same = known.user == wish.user && known.agent == wish.agent;
                if same { Ok(known.into()) } else { Err(reused()) }
            }
            Err(e) => Err(e.into()),
        }
    }

    /// The id of the session that was or would be created under an idempotency key.
    pub(crate) fn session_id(&self, who: &Principal, idempotency_key: &str) -> String {
        self.new_id(who, "session", Some(idempotency_key))
    }

    /// An id for a new session. With an idempotency key it is always the same one.
    fn new_id(&self, who: &Principal, what: &str, idempotency_key: Option<&str>) -> String {
        let Some(key) = idempotency_key else {
            return format!("s_{}", uuid::Uuid::now_v7().simple());
        };
        format!("s_{}", digest(&[what, who.tenant.as_str(), who.user.as_str(), key]))
    }

    /// Sessions, last updated first.
    ///
    /// # Errors
    /// When the query is wrong, or asks for what is not the caller's; the store's.
    pub async fn list_sessions(
        &self,
        who: &Principal,
        query: SessionsQuery,
    ) -> Answer<Page<SessionView>> {
        let user = match whose(who, query.user.as_deref(), Role::Operator)? {
            Whose::Of(user) => Some(user),
            Whose::Everyones => None,
        };
        let after = query.cursor.map(|cursor| cursor.parse()).transpose();
        if let Some(q) = &query.q {
            text("q", q, 200)?;
        }
        let page = SessionQuery {
            user,
            agent: query.agent.map(Into::into),
            status: query.status.map(Into::into),
            search: query.q,
            after: after.map_err(|e| Problem::field("cursor", format!("{e}")))?,
            limit: limit(query.limit, 50, 200)?,
            ..SessionQuery::of(who.tenant.clone())
        };
        let page = self.store().list_sessions(page).await?;
        Ok(Page {
            items: page.items.into_iter().map(SessionView::from).collect(),
            next: page.next.map(|cursor| cursor.to_string()),
        })
    }

    /// A session with its messages, of one moment.
    ///
    /// # Errors
    /// Those of [`session`](Self::session); the store's.
    pub async fn session_detail(
        &self,
        who: &Principal,
        id: &str,
        messages: u32,
    ) -> Answer<SessionDetail> {
        let session = self.session(who, id, Want::Read).await?;
        let view = self.store().view(&session.key, messages).await?;
        Ok(SessionDetail {
            session: view.session.into(),
            messages: view.messages,
            earlier: (view.first > 0).then(|| view.first.to_string()),
            after: view.after_seq.to_string(),
            queued: view.inbox.into_iter().map(queued).collect(),
        })
    }

    /// Messages before a place, oldest first.
    ///
    /// # Errors
    /// Those of [`session`](Self::session); when the query is wrong; the store's.
    pub async fn messages(
        &self,
        who: &Principal,
        id: &str,
        query: MessagesQuery,
    ) -> Answer<MessagePage> {
        let session = self.session(who, id, Want::Read).await?;
        let most = limit(query.limit, 200, 1000)?;
        let before = match query.cursor.map(|cursor| cursor.parse::<u32>()).transpose() {
            Ok(before) => before,
            Err(_) => return Err(Problem::field("cursor", "is not of this list")),
        };
        let before = match before {
            Some(before) => before,
            None => self.store().view(&session.key, 0).await?.first,
        };
        let from = before.saturating_sub(most);
        let items = self.store().messages(&session.key, from, before - from).await?;
        Ok(MessagePage { items, next: (from > 0).then(|| from.to_string()) })
    }

    /// Gives a session a title.
    ///
    /// # Errors
    /// Those of [`session`](Self::session); when the title is wrong; the store's.
    pub async fn set_title(&self, who: &Principal, id: &str, title: &str) -> Answer<SessionView> {
        let session = self.session(who, id, Want::Talk).await?;
        text("title", title, TITLE)?;
        self.store().set_title(&session.key, title, self.now()).await?;
        self.bus().publish(&session.key, Notice::Titled);
        Ok(self.store().session(&session.key).await?.into())
    }

    /// Copies a session up to a place; the copy is the caller's.
    ///
    /// # Errors
    /// Those of [`session`](Self::session); when the place or the title is wrong; the store's.
    pub async fn fork_session(
        &self,
        who: &Principal,
        id: &str,
        new: NewFork,
        idempotency_key: Option<&str>,
    ) -> Answer<SessionView> {
        let session = self.session(who, id, Want::Talk).await?;
        let at = match (new.turn, new.steps, new.before) {
            (None, None, None) => ForkAt::End,
            (Some(turn), None, None) => ForkAt::Turn(turn.into()),
            (Some(turn), Some(steps), None) => ForkAt::Step { turn: turn.into(), steps },
            (None, None, Some(position)) => ForkAt::Position(position),
            (None, Some(_), _) => {
                return Err(Problem::field("steps", "needs `turn`, whose steps are counted"));
            }
            (Some(_), _, Some(_)) => {
                return Err(Problem::field("before", "cannot be given together with `turn`"));
            }
        };
        if let Some(title) = &new.title {
            text("title", title, TITLE)?;
        }
        let copy = self.new_id(who, &format!("fork of {id}"), idempotency_key);
        let fork = Fork {
            from: session.key,
            at,
            id: SessionId::from(copy.as_str()),
            user: who.user.clone(),
            title: new.title,
            state: None,
            now: self.now(),
        };
        match self.store().fork_session(fork).await {
            Ok(copy) => Ok(copy.into()),
            Err(StoreError::Conflict { what: Conflict::SessionExists(_) })
                if idempotency_key.is_some() =>
            {
                match self.store().session(&who.session(&copy)).await {
                    Ok(known) => Ok(known.into()),
                    Err(StoreError::NotFound { .. }) => {
                        Err(reused("It made a copy that is deleted."))
                    }
                    Err(e) => Err(e.into()),
                }
            }
            Err(e) => Err(e.into()),
        }
    }

    /// Deletes a session, stopping what runs first.
    ///
    /// # Errors
    /// Those of [`session`](Self::session); `session_busy` when its turn does not stop in time; the store's.
    pub async fn delete_session(&self, who: &Principal, id: &str) -> Answer<Session> {
        let session = self.session(who, id, Want::Tend).await?;
        let key = &session.key;
        let mut watch = self.bus().watch(key).await;
        let give_up = Instant::now() + self.options().delete_wait;
        let mut stopped = false;
        loop {
            match self.store().delete_session(key, self.now()).await {
                Ok(()) => {
                    self.bus().publish(key, Notice::Deleted);
                    return Ok(session);
                }
                Err(StoreError::Busy { .. }) if Instant::now() < give_up => {}
                Err(e) => return Err(e.into()),
            }
            if !std::mem::replace(&mut stopped, true) {
                self.post(key, Posted::Stop { turn: None, by: Some(who.user.clone()) }, None)
                    .await?;
            }
            // Each commit may be the last; between the last one and the release there is nothing to hear.
            let again = Instant::now() + std::time::Duration::from_millis(50);
            let heard = tokio::time::timeout_at(again.min(give_up), watch.next()).await;
            if let Ok(Some(Heard::Told(Notice::Deleted))) = heard {
                return Err(Problem::not_found());
            }
        }
    }
}

/// An idempotency key that stands for something else.
fn reused(detail: &str) -> Problem {
    Problem::new(Code::IdempotencyKeyReused, detail)
}

/// A model's name as the engine takes it.
pub(super) fn model(field: &'static str, name: Option<&str>) -> Answer<Option<ModelRef>> {
    let Some(name) = name else { return Ok(None) };
    match ModelRef::parse(name) {
        Some(model) if name.len() <= 200 => Ok(Some(model)),
        _ => Err(Problem::field(field, "must be of the form `provider:model`")),
    }
}

fn queued(item: InboxItem) -> QueuedView {
    let (by, what) = match item.input {
        Posted::Message { delivery, message, .. } => {
            let (turn, content) = (message.turn, message.content);
            (message.author, QueuedKind::Message { turn, delivery: delivery.into(), content })
        }
        Posted::Decision { card, by, .. } => {
            (by, QueuedKind::Decision { approval: card.to_string() })
        }
        Posted::ClientResult { card, by, .. } => {
            (by, QueuedKind::ToolResult { approval: card.to_string() })
        }
        Posted::Stop { by, .. } => (by, QueuedKind::Stop),
    };
    QueuedView { n: item.n, at: item.at, by, what }
}
