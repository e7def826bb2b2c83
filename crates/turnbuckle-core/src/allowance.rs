//! "Always allow this": what a person may say beside an approval, and tests of arguments, which rules use as well.

use crate::context::{Path, walk};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

/// For how long an approval is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RememberFor {
    /// In this session.
    Session,
    /// In every session of the person who decides.
    User,
}

/// An approval that holds for further calls of the same tool by the same agent for the same person.
///
/// Written as `"session"` or `"user"`, or with tests of the arguments as an object:
///
/// ```
/// use turnbuckle_core::allowance::{Remember, RememberFor};
/// let plain: Remember = serde_json::from_str(r#""session""#)?;
/// assert_eq!(plain, Remember::of(RememberFor::Session));
/// let bounded = r#"{"for":"user","args":[{"path":"amount","below":100.0}]}"#;
/// let remember: Remember = serde_json::from_str(bounded)?;
/// assert_eq!(serde_json::to_string(&remember)?, bounded);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct Remember {
    /// For how long.
    pub scope: RememberFor,
    /// Only for calls whose arguments pass all of these tests.
    pub args: Vec<ArgTest>,
}

impl Remember {
    /// Whatever the arguments.
    pub const fn of(scope: RememberFor) -> Self {
        Self { scope, args: Vec::new() }
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for Remember {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        Written::schema()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for Remember {
    fn schemas(schemas: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::Schema>)>) {
        Written::schemas(schemas);
    }
}

/// An approval that holds for further calls: for all of the tool, or for those whose arguments pass tests.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
enum Written {
    Plain(RememberFor),
    Tested(Tested),
}

#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
struct Tested {
    #[serde(rename = "for")]
    scope: RememberFor,
    #[serde(default)]
    args: Vec<ArgTest>,
}

impl From<Written> for Remember {
    fn from(written: Written) -> Self {
        match written {
            Written::Plain(scope) => Self::of(scope),
            Written::Tested(Tested { scope, args }) => Self { scope, args },
        }
    }
}

impl From<Remember> for Written {
    fn from(remember: Remember) -> Self {
        let Remember { scope, args } = remember;
        if args.is_empty() { Self::Plain(scope) } else { Self::Tested(Tested { scope, args }) }
    }
}

/// A test of one argument. It does not hold when the argument is not there, unless it tests for that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ArgTest {
    /// Where, for instance `amount` or `to[0]`.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    #[serde(serialize_with = "path_to_text", deserialize_with = "path_from_text")]
    pub path: Path,
    /// What.
    #[serde(flatten)]
    pub test: Test,
}

fn path_to_text<S: Serializer>(path: &Path, s: S) -> Result<S::Ok, S::Error> {
    let text = path.to_string();
    s.serialize_str(text.strip_prefix('.').unwrap_or(&text))
}

fn path_from_text<'de, D: Deserializer<'de>>(d: D) -> Result<Path, D::Error> {
    String::deserialize(d)?.parse().map_err(de::Error::custom)
}

/// What is tested.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Test {
    /// It is this value.
    Equals(Value),
    /// It is one of these values.
    OneOf(Vec<Value>),
    /// It is a number above this.
    Above(f64),
    /// It is a number below this.
    Below(f64),
    /// It is text that contains this.
    Contains(String),
    /// Whether it is there at all.
    Present(bool),
}

impl ArgTest {
    /// Whether it holds.
    ///
    /// # Errors
    /// When the argument is of a kind that cannot be tested so.
    pub fn holds(&self, args: &Value) -> Result<bool, String> {
        let found = walk(args, &self.path).filter(|v| !v.is_null());
        let Some(value) = found else {
            return Ok(self.test == Test::Present(false));
        };
        let number = || value.as_f64().ok_or_else(|| format!("`{}` is not a number", self.path));
        match &self.test {
            Test::Equals(expected) => Ok(*value == *expected),
            Test::OneOf(all) => Ok(all.contains(&value)),
            Test::Above(bound) => Ok(number()? > *bound),
            Test::Below(bound) => Ok(number()? < *bound),
            Test::Contains(part) => match value.as_str() {
                Some(text) => Ok(text.contains(part.as_str())),
                None => Err(format!("`{}` is not text", self.path)),
            },
            Test::Present(wanted) => Ok(*wanted),
        }
    }
}
