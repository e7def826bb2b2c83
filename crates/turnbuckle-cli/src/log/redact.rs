//! Takes secrets out of whatever leaves the process as a log line or a span. One place for all of them: nobody who logs has to
//! think of it.
//!
//! A secret is known by its own shape (the prefixes that vendors give their keys, tokens in three dotted parts), by what stands
//! before it (`Bearer`, `api_key=`, `"password":`), or by its place in an address (`scheme://user:password@host`). Counts, such as
//! `max_tokens=4096`, are not secrets, although their names sound like it.

use regex::{Captures, Regex};
use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::LazyLock;
use tracing_subscriber::fmt::MakeWriter;

/// What stands in the place of a secret.
const HIDDEN: &str = "[redacted]";

/// Everything that looks like a secret. Named groups: `keep` stays, and so does `after`; what else matched is hidden.
const PATTERN: &str = r#"(?x)
    # user:password@ in an address; the user stays
    (?P<url>(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*://[^\s/?\#@:"']*):[^\s/?\#"']+@)
    # Authorization: Bearer ..., Basic ...
  | (?P<auth>(?i:\b(?:bearer|basic))\s+)[A-Za-z0-9._~+/\-]{6,}=*
    # name = value, name: value, "name": "value"; a number after a name that ends in `token` is a count, not a secret
  | (?P<name>(?i:
        \b(?:[A-Za-z0-9_\-]*[_\-])?(?:api[_\-]?key|apikey|access[_\-]?key(?:[_\-]?id)?|secret(?:[_\-]?(?:access[_\-]?)?key)?|client[_\-]?secret
          |passw(?:or)?d|passphrase|credentials?|private[_\-]?key|auth(?:entication|orization)?[_\-]?token
          |access[_\-]?token|refresh[_\-]?token|id[_\-]?token|session[_\-]?token|bearer[_\-]?token|signature|cookie|token)
      )\\?["']?\s*[=:]\s*\\?["']?)(?P<value>[^\s"'\\,;&)}\]]{4,})
    # keys by their vendors' prefixes
  | \b(?:tbk_[0-9a-f]{8,}|sk-[A-Za-z0-9_\-]{8,}|sk_[A-Za-z0-9_]{8,}|xai-[A-Za-z0-9]{8,}|gsk_[A-Za-z0-9]{8,}|hf_[A-Za-z0-9]{8,}
      |AIza[A-Za-z0-9_\-]{20,}|AKIA[A-Z0-9]{12,}|ASIA[A-Z0-9]{12,}|ya29\.[A-Za-z0-9_\-]{8,}|gh[pousr]_[A-Za-z0-9]{16,}|xox[abprs]-[A-Za-z0-9\-]{8,})
    # a signed token
  | \beyJ[A-Za-z0-9_\-]{4,}\.[A-Za-z0-9_\-]{4,}\.[A-Za-z0-9_\-]*
"#;

static SECRETS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(PATTERN).ok());

/// The text without its secrets.
pub fn redact(text: &str) -> Cow<'_, str> {
    match &*SECRETS {
        Some(secrets) => secrets.replace_all(text, hidden),
        // The pattern is fixed, and the tests compile it. Were it broken, silence would be better than a leak.
        None => Cow::Borrowed(HIDDEN),
    }
}

fn hidden(found: &Captures<'_>) -> String {
    let of = |name: &str| found.name(name).map_or("", |group| group.as_str());
    if found.name("url").is_some() {
        return format!("{}:{HIDDEN}@", of("scheme"));
    }
    if found.name("name").is_some() {
        let value = of("value");
        let is_word = matches!(value, "null" | "None" | "true" | "false");
        let is_done = value.starts_with(HIDDEN.trim_end_matches(']'));
        let named =
            of("name").trim_end_matches(|c: char| !c.is_alphanumeric()).to_ascii_lowercase();
        if is_word || is_done || (named.ends_with("token") && is_count(value)) {
            return found.get(0).map_or("", |all| all.as_str()).to_owned();
        }
        return match value.to_ascii_lowercase().as_str() {
            // What follows is hidden by its own rule.
            "bearer" | "basic" => found.get(0).map_or("", |all| all.as_str()).to_owned(),
            _ => format!("{}{HIDDEN}", of("name")),
        };
    }
    format!("{}{HIDDEN}", of("auth"))
}

/// Whether a value is a number of something.
fn is_count(value: &str) -> bool {
    value.bytes().all(|b| b.is_ascii_digit() || b == b'.' || b == b'_') && value.len() < 16
}

/// Stderr for the log. Each event is written whole, so each is redacted whole.
#[derive(Clone, Copy, Debug)]
pub struct RedactedStderr;

impl<'a> MakeWriter<'a> for RedactedStderr {
    type Writer = Redacting<io::Stderr>;

    fn make_writer(&'a self) -> Self::Writer {
        Redacting(io::stderr())
    }
}

/// Writes what it is given without its secrets.
#[derive(Debug)]
pub struct Redacting<W>(pub W);

impl<W: Write> Write for Redacting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        self.0.write_all(redact(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_and_what_is_around_them_stays() {
        for (said, expected) in [
            (
                "connecting to postgres://turn:s3cr3t!@db.internal:5432/turnbuckle?sslmode=require",
                "connecting to postgres://turn:[redacted]@db.internal:5432/turnbuckle?sslmode=require",
            ),
            ("redis://:p%40ss@cache:6379/0 is away", "redis://:[redacted]@cache:6379/0 is away"),
            ("authorization: Bearer abc.def-ghi_jkl", "authorization: Bearer [redacted]"),
            ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [redacted]"),
            ("key tbk_0123456789abcdef0123 was used", "key [redacted] was used"),
            ("sk-ant-api03-AbCdEf123456 is refused", "[redacted] is refused"),
            (
                "Incorrect API key provided: sk-proj-abcdefgh.",
                "Incorrect API key provided: [redacted].",
            ),
            ("GET /v1?key=1&api_key=abcdef&x=2", "GET /v1?key=1&api_key=[redacted]&x=2"),
            (r#"{"api_key":"abcdef","n":1}"#, r#"{"api_key":"[redacted]","n":1}"#),
            (r#"{"api_key":"987654321","n":1}"#, r#"{"api_key":"[redacted]","n":1}"#),
            (
                r#"body="{\"client_secret\":\"abcdef\"}""#,
                r#"body="{\"client_secret\":\"[redacted]\"}""#,
            ),
            ("x-api-key: abcdef123", "x-api-key: [redacted]"),
            ("OPENAI_API_KEY=abcdef", "OPENAI_API_KEY=[redacted]"),
            ("password='hunter22'", "password='[redacted]'"),
            ("password=12345678", "password=[redacted]"),
            ("access_token=ya29.a0AfH6SMBx", "access_token=[redacted]"),
            ("token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2ln here", "token [redacted] here"),
            ("AKIAIOSFODNN7EXAMPLE", "[redacted]"),
            ("set-cookie: session=abcdef; Path=/", "set-cookie: [redacted]; Path=/"),
        ] {
            assert_eq!(redact(said), expected);
            assert_eq!(redact(expected), expected, "once is as good as twice");
        }
    }

    #[test]
    fn counts_and_prose_are_no_secrets() {
        for said in [
            "max_tokens=4096 input_tokens=12 output_tokens: 7",
            r#"{"gen_ai.usage.input_tokens":1200,"tokens":5000,"max_tokens":200000}"#,
            "token=12345",
            "the request has about 130000 tokens and the model takes 128000",
            "a token was refused: the signature is not valid",
            "the bearer of this letter",
            "http://127.0.0.1:7777/v1/sessions/s_1/events?after=7",
            "model=openai:gpt-5-mini session=s_0192 turn=t_0193",
            "see user@example.com",
            "api_key=None password=null",
            "risk-assessment-for-the-board",
        ] {
            assert_eq!(redact(said), said);
        }
    }

    #[test]
    fn what_is_written_is_redacted_whole() {
        let mut out = Redacting(Vec::new());
        let key = "tbk_00112233445566";
        write!(out, "{key} and again").unwrap();
        assert_eq!(String::from_utf8(out.0).unwrap(), "[redacted] and again");
    }

    proptest::proptest! {
        #[test]
        fn no_text_breaks_it_and_no_key_survives(before in ".{0,40}", after in "[ ,;\"].{0,40}") {
            let said = format!("{before} tbk_00112233445566778899{after}");
            proptest::prop_assert!(!redact(&said).contains("00112233445566778899"));
        }
    }
}
