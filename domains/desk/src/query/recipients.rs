//! From recipients as written to addresses a mail can go to. All that cannot be used are reported
//! at once.

use sqlx::SqliteConnection;

use super::resolve;
use crate::caller::Caller;
use crate::error::{DeskError, Result};
use crate::ids::{Kind, Reference};
use crate::phone::to_e164;

/// Most addresses of one list.
const MOST: usize = 50;

/// Whether a text is an address a mail can be sent to.
pub(crate) fn is_address(text: &str) -> bool {
    let Some((local, domain)) = text.split_once('@') else { return false };
    let plain = |part: &str| {
        !part.is_empty()
            && part
                .chars()
                .all(|c| !c.is_whitespace() && !c.is_control() && !"@,;:<>()[]\\\"".contains(c))
    };
    let labels = || domain.split('.');
    text.len() <= 254
        && plain(local)
        && plain(domain)
        && labels().count() > 1
        && labels().all(|label| !label.is_empty())
}

/// The addresses the entries mean, each once, in order.
pub(crate) async fn addresses(
    conn: &mut SqliteConnection,
    caller: &Caller,
    field: &'static str,
    entries: &[String],
) -> Result<Vec<String>> {
    if entries.len() > MOST {
        let message = format!("names {} recipients; at most {MOST} fit", entries.len());
        return Err(DeskError::invalid(field, message));
    }
    let mut found: Vec<String> = Vec::new();
    let mut problems = Vec::new();
    for entry in entries {
        match address(conn, caller, field, entry.trim()).await {
            Ok(address) if found.contains(&address) => {}
            Ok(address) => found.push(address),
            Err(DeskError::Store(error)) => return Err(error.into()),
            Err(error) => problems.push(error),
        }
    }
    match problems.len() {
        0 => Ok(found),
        1 => Err(problems.remove(0)),
        _ => {
            let all: Vec<_> = problems.iter().map(ToString::to_string).collect();
            Err(DeskError::invalid(field, all.join(" | ")))
        }
    }
}

async fn address(
    conn: &mut SqliteConnection,
    caller: &Caller,
    field: &'static str,
    entry: &str,
) -> Result<String> {
    // "Name <address>" is how mail programs write it.
    let bare =
        entry.strip_suffix('>').and_then(|rest| rest.split_once('<')).map_or(entry, |(_, a)| a);
    if is_address(bare) {
        return Ok(bare.to_lowercase());
    }
    let kind = Reference::parse(entry).and_then(|reference| reference.kind());
    if kind == Some(Kind::Member) || entry.eq_ignore_ascii_case("me") {
        let id = resolve::one(conn, caller, Kind::Member, field, entry).await?;
        return Ok(email(conn, "SELECT email FROM members WHERE id = ?", id).await?);
    }
    if kind.is_none() && to_e164(entry, None).is_some() {
        let message =
            format!("{entry:?} is a phone number; mail needs an e-mail address or a contact");
        return Err(DeskError::invalid(field, message));
    }
    let id = resolve::one(conn, caller, Kind::Contact, field, entry).await?;
    Ok(email(conn, "SELECT email FROM contacts WHERE id = ?", id).await?)
}

async fn email(
    conn: &mut SqliteConnection,
    sql: &'static str,
    id: i64,
) -> std::result::Result<String, sqlx::Error> {
    sqlx::query_scalar(sql).bind(id).fetch_one(conn).await
}

#[cfg(test)]
mod tests {
    use super::is_address;

    #[test]
    fn only_plain_addresses_pass() {
        assert!(is_address("ana.silva+x@mail.example"));
        for bad in [
            "",
            "ana",
            "ana@",
            "@x.example",
            "a@b",
            "a b@x.example",
            "a@x..example",
            "a@x.example\nBcc: all@x.example",
            "a@b@c.example",
            "a@x.example,b@x.example",
        ] {
            assert!(!is_address(bad), "{bad:?}");
        }
    }
}
