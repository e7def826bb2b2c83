//! `turnbuckle keys`: making, listing and revoking API keys on the machine itself.

use crate::config::Settings;
use crate::error::CliError;
use crate::exit::Exit;
use crate::host::now;
use crate::keep::open_accounts;
use clap::{Args, Subcommand, ValueEnum};
use std::io::Write;
use turnbuckle::core::ids::TenantId;
use turnbuckle::core::time::Timestamp;
use turnbuckle_server::accounts::AccountsError;
use turnbuckle_server::auth::keys::{self, Key};
use turnbuckle_server::dto::Role;

/// What to do with API keys.
#[derive(Debug, Subcommand)]
pub enum KeysCommand {
    /// Make a key and print it, this once.
    Create(CreateArgs),
    /// List keys, without their secrets.
    List,
    /// Revoke a key; the next request with it is refused.
    Revoke {
        /// The key's id, as the list gives it.
        id: String,
    },
}

/// What a new key is for.
#[derive(Debug, Args)]
pub struct CreateArgs {
    /// What it is for, such as `ci`.
    pub name: String,
    /// The person it acts for. Otherwise the configured one.
    #[arg(long, short, value_name = "USER")]
    pub user: Option<String>,
    /// What it may do.
    #[arg(long, short, value_name = "ROLES", value_delimiter = ',', default_value = "user")]
    pub roles: Vec<RoleName>,
    /// After how many days it stops working; never, when not given.
    #[arg(long, value_name = "DAYS")]
    pub days: Option<u32>,
}

/// A role on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RoleName {
    /// Talks to agents in sessions of their own.
    User,
    /// Decides cards of the whole organisation.
    Approver,
    /// Looks after the sessions of the whole organisation.
    Operator,
    /// Does all of these, and sees to keys and the audit log.
    Admin,
}

impl From<RoleName> for Role {
    fn from(name: RoleName) -> Self {
        match name {
            RoleName::User => Self::User,
            RoleName::Approver => Self::Approver,
            RoleName::Operator => Self::Operator,
            RoleName::Admin => Self::Admin,
        }
    }
}

/// Sees to API keys.
///
/// # Errors
/// When the database of keys cannot be used, or there is no such key.
pub async fn run(settings: Settings, what: KeysCommand) -> Result<Exit, CliError> {
    let accounts = open_accounts(&settings).await?;
    let tenant = TenantId::from(settings.tenant.as_str());
    let failed = |e: AccountsError| CliError::Failed(e.to_string());
    let mut out = std::io::stdout();
    match what {
        KeysCommand::Create(args) => {
            let secret = keys::new_secret()
                .map_err(|e| CliError::Failed(format!("the system gives no random bytes: {e}")))?;
            let created = now();
            let key = Key {
                id: format!("k_{:x}", created.as_millis()),
                tenant,
                user: args.user.unwrap_or(settings.user.value).into(),
                name: args.name,
                roles: args.roles.into_iter().map(Role::from).collect(),
                created,
                expires_at: args.days.map(|days| created.plus(i64::from(days) * 24 * 3600 * 1000)),
                revoked_at: None,
            };
            accounts.add_key(&key, keys::hash(&secret)).await.map_err(failed)?;
            writeln!(out, "{secret}")?;
            let note = "Send it as `Authorization: Bearer ...`. It cannot be shown again. A server that is running without authentication asks for keys from its next start on.";
            writeln!(std::io::stderr(), "{} for {}. {note}", key.id, key.user)?;
        }
        KeysCommand::List => {
            let all = accounts.keys(&tenant).await.map_err(failed)?;
            if all.is_empty() {
                writeln!(out, "There are no keys: `turnbuckle keys create NAME` makes one.")?;
            }
            for key in all {
                let state = state(&key, now());
                let roles: Vec<String> = key.roles.iter().map(word).collect();
                writeln!(
                    out,
                    "{}  {:<10}  {}  {}  {state}",
                    key.id,
                    key.name,
                    key.user,
                    roles.join(",")
                )?;
            }
        }
        KeysCommand::Revoke { id } => {
            if !accounts.revoke_key(&tenant, &id, now()).await.map_err(failed)? {
                return Err(CliError::Failed(format!(
                    "there is no key `{id}`: `turnbuckle keys list` lists those there are"
                )));
            }
            writeln!(out, "{id} is revoked.")?;
        }
    }
    Ok(Exit::Completed)
}

fn word(role: &Role) -> String {
    match role {
        Role::User => "user",
        Role::Approver => "approver",
        Role::Operator => "operator",
        Role::Admin => "admin",
    }
    .to_owned()
}

fn state(key: &Key, now: Timestamp) -> String {
    match (key.revoked_at, key.expires_at) {
        (Some(at), _) => format!("revoked {at}"),
        (None, Some(at)) if at <= now => format!("expired {at}"),
        (None, Some(at)) => format!("until {at}"),
        (None, None) => "in force".to_owned(),
    }
}
