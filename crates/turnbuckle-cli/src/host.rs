//! Everything a command that runs an agent works with: data folder, desk, store, model, engine.

use crate::choice::{self, Choice, Source};
use crate::config::Settings;
use crate::error::CliError;
use crate::place::{self, Ownership};
use desk::Desk;
use desk::agent::DeskDomain;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use turnbuckle::Engine;
use turnbuckle::core::event::Event;
use turnbuckle::core::ids::{TurnId, UserId};
use turnbuckle::core::message::{CardStatus, SystemMessage};
use turnbuckle::core::time::Timestamp;
use turnbuckle::models::Providers;
use turnbuckle::store::{
    CardQuery, Session, SessionKey, SessionQuery, SessionStatus, SqliteStore, Store, StoreError,
};

/// The name under which every run of the binary holds sessions. The lock on the data folder makes it unique, so that a new
/// run may take up at once what a killed one left.
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

/// Opens the sessions of the data folder.
///
/// # Errors
/// When the database cannot be opened.
pub async fn open_store(folder: &Path) -> Result<SqliteStore, CliError> {
    Ok(SqliteStore::open(folder.join(place::SESSIONS)).await?)
}

impl Host {
    /// Opens the data folder and sets the engine up.
    ///
    /// # Errors
    /// When the folder is in use, a database cannot be opened, or the model cannot be had.
    pub async fn open(settings: Settings, access: Access) -> Result<Self, CliError> {
        let folder = place::open(&settings)?;
        let ownership = match access {
            Access::Owner => Some(Ownership::take(&folder)?),
            Access::Guest => None,
        };
        let providers = Arc::new(choice::providers(&settings));
        let choice = match access {
            Access::Owner => choice::choose(&settings, &providers).await?,
            Access::Guest => choice::rehearsed(&settings, "no model is called".to_owned()),
        };
        let store = open_store(&folder).await?;
        let desk = Desk::open(folder.join(place::DESK)).await?;
        // A person who does not exist is better told now than by each tool.
        desk.caller(&settings.user.value).await.map_err(|e| {
            CliError::Failed(format!(
                "nobody on the desk is `{}` (set {}): {e}",
                settings.user.value, settings.user.source
            ))
        })?;
        let engine = Engine::builder()
            .domain(DeskDomain::new(desk).await?)
            .models(Source::new(providers.clone(), choice.model.clone()))
            .store(store)
            .limits(settings.limits.clone())
            .policy(settings.policy.clone())
            .name(OWNER)
            .build()?;
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
        Ok(Self { engine, settings, choice, providers, folder, titles, _ownership: ownership })
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

    /// Creates a session with the configured agent and person, titled by its first message.
    ///
    /// # Errors
    /// When there is no such agent, and the store's.
    pub async fn create_session(&self, first: &str) -> Result<SessionKey, CliError> {
        let settings = &self.settings;
        let agent = settings.agent.value.as_str();
        let session =
            self.engine.create_session(settings.tenant.as_str(), self.user(), agent).await?;
        self.store().set_title(&session.key, &title_of(first), now()).await?;
        Ok(session.key)
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
            tenant: self.settings.tenant.as_str().into(),
            user: Some(self.user()),
            title_contains: None,
            after: None,
            limit,
        };
        Ok(self.store().list_sessions(query).await?.items)
    }

    /// The cards of a session that nobody has answered.
    ///
    /// # Errors
    /// The store's.
    pub async fn pending_cards(&self, key: &SessionKey) -> Result<Vec<SystemMessage>, CliError> {
        let query = CardQuery {
            tenant: key.tenant.clone(),
            session: Some(key.id.clone()),
            status: Some(CardStatus::Pending),
            after: None,
            limit: 50,
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

/// Whether work waits in a session that nobody does.
pub fn is_unfinished(session: &Session) -> bool {
    session.status == SessionStatus::Running || session.pending > 0
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

/// A title is the beginning of the person's first line; never anything a model said.
fn title_of(message: &str) -> String {
    const LONGEST: usize = 60;
    let line = message.lines().map(str::trim).find(|l| !l.is_empty()).unwrap_or("untitled");
    let mut title: String = line.chars().take(LONGEST).collect();
    if title.len() < line.len() {
        title.push('…');
    }
    title
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_beginning_of_the_first_line() {
        assert_eq!(title_of("\n  Where is my parcel?\nThanks"), "Where is my parcel?");
        assert_eq!(title_of("   "), "untitled");
        let long = "ä".repeat(100);
        assert_eq!(title_of(&long), format!("{}…", "ä".repeat(60)));
    }
}
