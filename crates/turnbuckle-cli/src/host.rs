//! Everything a command that runs an agent works with: data folder, desk, store, model, engine.

use crate::choice::{self, Choice};
use crate::config::{Settings, Source};
use crate::error::CliError;
use crate::keep::{self, Keep};
use crate::place::{self, Ownership};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use turnbuckle::Engine;
use turnbuckle::core::event::Event;
use turnbuckle::core::ids::{TurnId, UserId};
use turnbuckle::core::message::SystemMessage;
use turnbuckle::core::model::ModelRef;
use turnbuckle::core::time::Timestamp;
use turnbuckle::core::title::{first_message, title_of};
use turnbuckle::models::Providers;
use turnbuckle::runtime::Titles;
use turnbuckle::store::{
    CardQuery, CardStanding, Jobs, Opened, Session, SessionKey, SessionQuery, SessionStatus, Store,
    StoreError,
};
use turnbuckle_server::quota::{self, Quotas};

/// The name under which every run of the binary holds the sessions of a data folder. The lock on the folder makes it unique,
/// so that a new run may take up at once what a killed one left. Processes that share a store have names of their own.
const OWNER: &str = "turnbuckle";
/// Items read from the store at once.
const PAGE: u32 = 1000;

/// An engine on the data folder.
pub struct Host {
    /// The engine.
    pub engine: Engine,
    /// What is configured.
    pub settings: Settings,
    /// The model by default.
    pub choice: Choice,
    /// All providers.
    pub providers: Arc<Providers>,
    /// The data folder.
    pub folder: PathBuf,
    /// Where sessions are kept.
    pub keep: Keep,
    /// Jobs, schedules and background tasks.
    pub jobs: Arc<dyn Jobs>,
    /// Titles of tools by name.
    pub titles: BTreeMap<String, String>,
    _ownership: Option<Ownership>,
}

/// Whether the process must be the only one on the data folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It drives turns.
    Owner,
    /// It calls tools or reads what is stored; no model is looked for.
    Guest,
}

impl Host {
    /// Opens the data folder and sets the engine up.
    ///
    /// # Errors
    /// When the folder is in use, a database cannot be opened, or the model cannot be had.
    pub async fn open(settings: Settings, access: Access) -> Result<Self, CliError> {
        let folder = place::open(&settings)?;
        let keep = Keep::of(&settings)?;
        // Who shares the sessions is told apart by leases.
        let ownership = match access {
            Access::Owner if !keep.is_shared() => Some(Ownership::take(&folder)?),
            Access::Owner | Access::Guest => None,
        };
        let providers = Arc::new(choice::providers(&settings));
        let choice = match access {
            Access::Owner => choice::choose(&settings, &providers).await?,
            Access::Guest => choice::rehearsed(&settings, "no model is called".to_owned()),
        };
        let Opened { sessions: store, jobs } = keep::open_store(&settings).await?;
        let quotas = Quotas::new(store.clone(), settings.server.quotas.clone());
        let domain = settings.product.open(&folder, &settings.user).await?;
        // The rehearsal stays offline, titles included.
        let titles = match &settings.titles {
            Titles::Model(_) if choice.is_rehearsal() => Titles::FirstMessage,
            titles => titles.clone(),
        };
        let mut engine = Engine::builder()
            .shared_domain(domain)
            .models(choice::Source::new(providers.clone(), choice.model.clone()))
            .shared_store(store)
            .wrap_models(quota::gate(quotas, now))
            .trace_content(settings.telemetry.trace_content())
            .limits(settings.limits.clone())
            .policy(settings.policy.clone())
            .lease(settings.store.lease())
            .titles(titles);
        if !keep.is_shared() {
            engine = engine.name(OWNER);
        }
        let engine = engine.build()?;
        if ownership.is_some() {
            engine.forfeit().await?;
        }
        let mut titles = BTreeMap::new();
        for agent in engine.domain().agents().values() {
            for tool in agent.tools() {
                let contract = tool.tool().contract();
                titles.insert(contract.name().to_string(), contract.title.clone());
            }
        }
        Ok(Self {
            jobs,
            engine,
            settings,
            choice,
            providers,
            folder,
            keep,
            titles,
            _ownership: ownership,
        })
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        self.engine.store()
    }

    /// The person.
    pub fn user(&self) -> UserId {
        UserId::from(self.settings.user.value.as_str())
    }

    /// The key of a session by its id.
    pub fn key(&self, id: &str) -> SessionKey {
        SessionKey::new(self.settings.tenant.as_str(), id)
    }

    /// Creates a session with the configured agent and person.
    ///
    /// # Errors
    /// When there is no such agent, and the store's.
    pub async fn create_session(&self) -> Result<SessionKey, CliError> {
        let settings = &self.settings;
        let agent = settings.agent.value.as_str();
        let session =
            self.engine.create_session(settings.tenant.as_str(), self.user(), agent).await?;
        Ok(session.key)
    }

    /// The model that a flag of this run asks for; it counts even where a session keeps another.
    pub fn asked_model(&self) -> Option<ModelRef> {
        let asked = self.settings.model.as_ref()?;
        matches!(asked.source, Source::Flag(_)).then(|| self.choice.model.id().clone())
    }

    /// The model that a session keeps; none before its first turn.
    ///
    /// # Errors
    /// The store's.
    pub async fn kept_model(&self, key: &SessionKey) -> Result<Option<ModelRef>, CliError> {
        let session = self.store().session(key).await?;
        Ok(session.model.as_deref().and_then(ModelRef::parse))
    }

    /// A session by its id.
    ///
    /// # Errors
    /// [`CliError::NoSession`], and the store's.
    pub async fn session(&self, id: &str) -> Result<Session, CliError> {
        session(&**self.store(), &self.key(id)).await
    }

    /// Sessions, last used first.
    ///
    /// # Errors
    /// The store's.
    pub async fn recent(&self, limit: u32) -> Result<Vec<Session>, CliError> {
        let query = SessionQuery {
            user: Some(self.user()),
            limit,
            ..SessionQuery::of(self.settings.tenant.as_str().into())
        };
        let mut sessions = self.store().list_sessions(query).await?.items;
        name_untitled(&**self.store(), &mut sessions).await?;
        Ok(sessions)
    }

    /// The cards of a session that nobody has answered.
    ///
    /// # Errors
    /// The store's.
    pub async fn pending_cards(&self, key: &SessionKey) -> Result<Vec<SystemMessage>, CliError> {
        let query = CardQuery {
            session: Some(key.id.clone()),
            standing: CardStanding::Pending,
            ..CardQuery::of(key.tenant.clone())
        };
        let page = self.store().cards(query).await?;
        let open = page.items.into_iter().filter(|card| card.answered_by.is_none());
        Ok(open.map(|card| card.message).collect())
    }
}

/// A session, or the error that helps when there is none.
///
/// # Errors
/// [`CliError::NoSession`], and the store's.
pub async fn session(store: &dyn Store, key: &SessionKey) -> Result<Session, CliError> {
    store.session(key).await.map_err(|e| match e {
        StoreError::NotFound { .. } => CliError::NoSession(key.id.to_string()),
        other => other.into(),
    })
}

/// The stored events of one turn.
///
/// # Errors
/// The store's.
pub async fn turn_events(
    store: &dyn Store,
    key: &SessionKey,
    turn: &TurnId,
) -> Result<Vec<Event>, StoreError> {
    let mut found = Vec::new();
    let mut after = 0;
    loop {
        let page = store.events(key, after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(found) };
        after = last.seq;
        found.extend(page.into_iter().filter(|event| event.turn == *turn));
    }
}

/// Whether work waits in a session that nobody does. What waits behind a paused turn is not of that kind.
pub fn is_unfinished(session: &Session) -> bool {
    match session.status {
        SessionStatus::Running => true,
        SessionStatus::Idle => session.pending > 0,
        SessionStatus::Paused => false,
    }
}

/// A session's state in a word.
pub const fn status_word(status: SessionStatus) -> &'static str {
    match status {
        SessionStatus::Idle => "idle",
        SessionStatus::Running => "unfinished",
        SessionStatus::Paused => "waits for approval",
    }
}

/// Now, by the machine's clock.
pub fn now() -> Timestamp {
    Timestamp::from_millis(jiff::Timestamp::now().as_millisecond())
}

/// What people call a session without a title: by its first message.
///
/// # Errors
/// The store's.
pub async fn name_untitled(store: &dyn Store, sessions: &mut [Session]) -> Result<(), StoreError> {
    for session in sessions.iter_mut().filter(|session| session.title.is_none()) {
        let messages = store.messages(&session.key, 0, 1).await?;
        let first = first_message(&messages).map(|m| m.content.outline().into_owned());
        session.title = first.as_deref().and_then(title_of);
    }
    Ok(())
}
