//! Changing the arguments of a card before approving it.

use crate::config::Settings;
use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::io::{Read, Seek, Write};
use turnbuckle::core::message::ApprovalCard;

/// An argument that may be changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its JSON Schema.
    schema: Value,
}

/// The arguments of a card that may be changed.
pub fn fields(card: &ApprovalCard) -> Vec<Field> {
    let properties = card.editable.as_ref().and_then(|s| s.get("properties")?.as_object());
    properties
        .into_iter()
        .flatten()
        .map(|(name, schema)| Field { name: name.clone(), schema: schema.clone() })
        .collect()
}

impl Field {
    /// A typed value: text where text is allowed, otherwise JSON.
    ///
    /// # Errors
    /// When it is no JSON and text is not allowed.
    pub fn parse(&self, typed: &str) -> Result<Value, String> {
        let types: Vec<&str> = match self.schema.get("type") {
            Some(Value::String(one)) => vec![one.as_str()],
            Some(Value::Array(some)) => some.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if typed == "null" && types.contains(&"null") {
            return Ok(Value::Null);
        }
        if types.contains(&"string") {
            return Ok(Value::String(typed.replace("\\n", "\n")));
        }
        match serde_json::from_str(typed) {
            Ok(value) => Ok(value),
            Err(_) if types.is_empty() => Ok(Value::String(typed.replace("\\n", "\n"))),
            Err(e) => Err(format!("{} takes {}: {e}", self.name, types.join(" or "))),
        }
    }
}

/// The editor: the configured one, else VISUAL or EDITOR where a person sits at a terminal.
pub fn editor(settings: &Settings, terminal: bool) -> Option<String> {
    let from_environment = || {
        let named = |name| crate::config::process_env(name);
        if terminal { named("VISUAL").or_else(|| named("EDITOR")) } else { None }
    };
    settings.editor.clone().or_else(from_environment)
}

/// What becomes of a card's arguments in the editor.
#[derive(Debug, PartialEq)]
pub enum Edited {
    /// They fit; what differs from the card, and it may be nothing.
    Changes(Map<String, Value>),
    /// They cannot be used. What was left is kept, to be opened again.
    Draft(Draft),
}

/// What the editor left and why it cannot be used.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// What is wrong with it.
    pub problem: String,
    text: String,
}

/// How a line begins that tells in the file what is wrong with it.
const PROBLEM: &str = "#! ";

impl Draft {
    /// The file as it was left, with what is wrong in front. What was wrong before is not in front any more.
    fn file(&self) -> String {
        let problem = self.problem.lines().map(|line| format!("{PROBLEM}{line}\n"));
        let left = self.text.lines().skip_while(|line| line.starts_with(PROBLEM));
        problem.chain(left.map(|line| format!("{line}\n"))).collect()
    }
}

/// Has the fields edited as TOML, in which long texts read well; a draft goes on from where it was left.
///
/// # Errors
/// When the editor fails.
pub async fn in_editor(
    command: &str,
    card: &ApprovalCard,
    fields: &[Field],
    current: &Map<String, Value>,
    draft: Option<&Draft>,
) -> Result<Edited, String> {
    let text = match draft {
        Some(draft) => draft.file(),
        None => as_toml(fields, current)?,
    };
    let command = command.to_owned();
    // The editor has the terminal to itself until it ends.
    let text = tokio::task::spawn_blocking(move || run_editor(&command, &text))
        .await
        .map_err(|e| format!("The editor could not be waited for: {e}"))??;
    Ok(match judge(card, fields, current, &text) {
        Ok(changes) => Edited::Changes(changes),
        Err(problem) => Edited::Draft(Draft { problem, text }),
    })
}

/// What a file changes of the card, or what is wrong with it.
fn judge(
    card: &ApprovalCard,
    fields: &[Field],
    current: &Map<String, Value>,
    text: &str,
) -> Result<Map<String, Value>, String> {
    let given: Map<String, Value> = toml::from_str(text)
        .map_err(|e| format!("What the editor left is no TOML: {}", e.message()))?;
    let mut all = current.clone();
    all.extend(given);
    let changes = changes(card, fields, all);
    check(card, &changes)?;
    Ok(changes)
}

fn as_toml(fields: &[Field], current: &Map<String, Value>) -> Result<String, String> {
    let mut text = String::from(
        "# Change what you like, save and close. A field you remove stays as it is.\n",
    );
    let mut values = Map::new();
    for field in fields {
        match current.get(&field.name) {
            Some(Value::Null) | None => {
                let _ = writeln!(text, "# {} = (empty)", field.name);
            }
            Some(value) => {
                values.insert(field.name.clone(), value.clone());
            }
        }
    }
    let body = toml::to_string_pretty(&values)
        .map_err(|e| format!("This cannot be edited as a file: {e}"))?;
    Ok(text + &body)
}

fn run_editor(command: &str, text: &str) -> Result<String, String> {
    let file = || -> std::io::Result<tempfile::NamedTempFile> {
        let mut file = tempfile::Builder::new().prefix("approval-").suffix(".toml").tempfile()?;
        file.write_all(text.as_bytes())?;
        Ok(file)
    };
    let mut file = file().map_err(|e| format!("No file could be made for the editor: {e}"))?;
    let mut words = command.split_whitespace();
    let program = words.next().unwrap_or_default();
    let status = std::process::Command::new(program)
        .args(words)
        .arg(file.path())
        .status()
        .map_err(|e| format!("The editor `{command}` cannot be started: {e}"))?;
    if !status.success() {
        return Err(format!("The editor `{command}` ended with {status}; nothing is changed."));
    }
    // Editors replace files; read what lies under the name now.
    let mut edited = String::new();
    let read = std::fs::read_to_string(file.path()).or_else(|_| {
        file.rewind()?;
        file.read_to_string(&mut edited).map(|_| edited.clone())
    });
    read.map_err(|e| format!("What the editor left cannot be read: {e}"))
}

/// The fields that differ from the card.
pub fn changes(
    card: &ApprovalCard,
    fields: &[Field],
    edited: Map<String, Value>,
) -> Map<String, Value> {
    let known = |name: &str| fields.iter().any(|f| f.name == name);
    edited
        .into_iter()
        .filter(|(name, value)| {
            // A name that is no field is kept when it is new, so that the check can speak of it.
            card.args.get(name) != Some(value) && (known(name) || card.args.get(name).is_none())
        })
        .collect()
}

/// Whether the changes fit the card, before anything is approved with them.
///
/// # Errors
/// What does not fit.
pub fn check(card: &ApprovalCard, changes: &Map<String, Value>) -> Result<(), String> {
    let Some(schema) = &card.editable else { return Ok(()) };
    // A schema the validator cannot read is judged by the engine, which made it.
    let Ok(validator) = jsonschema::validator_for(schema) else { return Ok(()) };
    let value = Value::Object(changes.clone());
    let wrong: Vec<String> = validator
        .iter_errors(&value)
        .map(|e| match e.instance_path().to_string().trim_start_matches('/') {
            // It is the arguments as a whole.
            "" => e.to_string(),
            field => format!("{field}: {e}"),
        })
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(format!("That does not fit: {}", wrong.join("; "))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use turnbuckle::core::message::{Asks, CardStatus};

    fn card() -> ApprovalCard {
        ApprovalCard {
            call: "c".into(),
            message: "m".into(),
            agent: Some("main".into()),
            asks: Asks::Decision,
            tool: "reply".into(),
            title: "Reply".into(),
            args: json!({"to": "x@example.com", "body": "Dear\nCustomer", "copies": 2, "cc": null})
                .into(),
            digest: None,
            reason: None,
            editable: Some(
                json!({
                    "type": "object",
                    "properties": {
                        "body": {"type": "string", "minLength": 3},
                        "copies": {"type": "integer"},
                        "cc": {"type": ["string", "null"]},
                    },
                    "additionalProperties": false,
                })
                .into(),
            ),
            status: CardStatus::Pending,
            expires_at: None,
            decided: None,
        }
    }

    fn field(name: &str) -> Field {
        fields(&card()).into_iter().find(|f| f.name == name).unwrap()
    }

    #[test]
    fn typed_values_follow_the_schema() {
        assert_eq!(field("body").parse("12\\nx"), Ok(json!("12\nx")));
        assert_eq!(field("copies").parse("12"), Ok(json!(12)));
        assert!(field("copies").parse("many").unwrap_err().contains("copies takes integer"));
        assert_eq!(field("cc").parse("null"), Ok(Value::Null));
    }

    #[test]
    fn only_what_differs_is_a_change_and_it_must_fit() {
        let card = card();
        let edited = json!({"to": "x@example.com", "body": "Hello", "copies": 2, "cc": null});
        let changed = changes(&card, &fields(&card), edited.as_object().cloned().unwrap());
        assert_eq!(Value::Object(changed.clone()), json!({"body": "Hello"}));
        assert_eq!(check(&card, &changed), Ok(()));
        let short = json!({"body": "x"}).as_object().cloned().unwrap();
        assert!(check(&card, &short).unwrap_err().starts_with("That does not fit: body: "));
        let foreign = json!({"nonsense": 1}).as_object().cloned().unwrap();
        let told = check(&card, &foreign).unwrap_err();
        assert!(told.starts_with("That does not fit: Additional properties"), "{told}");
    }

    #[tokio::test]
    async fn an_editor_gets_the_fields_as_toml_and_gives_them_back() {
        let card = card();
        let current = card.args.as_object().cloned().unwrap();
        let text = as_toml(&fields(&card), &current).unwrap();
        assert!(text.contains("# cc = (empty)") && text.contains("Dear\nCustomer"), "{text}");
        // `true` changes nothing, whatever it is given.
        let edited = in_editor("true", &card, &fields(&card), &current, None).await;
        assert_eq!(edited, Ok(Edited::Changes(Map::new())));
        let failed = in_editor("false", &card, &fields(&card), &current, None).await.unwrap_err();
        assert!(failed.contains("nothing is changed"), "{failed}");
    }

    #[tokio::test]
    async fn a_draft_is_opened_as_it_was_left_under_what_is_wrong_now() {
        let card = card();
        let current = card.args.as_object().cloned().unwrap();
        let text = "#! An old problem\n# A note\nbody = \"x\"\n".to_owned();
        let draft = Draft { problem: "First\nSecond".to_owned(), text };
        let file = "#! First\n#! Second\n# A note\nbody = \"x\"\n";
        assert_eq!(draft.file(), file);
        let again = in_editor("true", &card, &fields(&card), &current, Some(&draft)).await;
        let Ok(Edited::Draft(again)) = again else { panic!("{again:?}") };
        assert!(again.problem.starts_with("That does not fit: body: "), "{}", again.problem);
        assert_eq!(again.text, file);
    }
}
