//! What goes wrong, as RFC 9457 problem documents.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use turnbuckle_engine::EngineError;
use turnbuckle_store::{Conflict, StoreError};
use utoipa::ToSchema;

/// The stable code of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The body is not the JSON this route takes.
    MalformedBody,
    /// The path or the query is not one of this route.
    MalformedQuery,
    /// A header cannot be read.
    MalformedHeader,
    /// There are no valid credentials.
    Unauthenticated,
    /// A browser page of another origin, or an unknown host name, while there is no authentication.
    OriginRefused,
    /// There is no such thing, or not for the caller.
    NotFound,
    /// The route is there, but not with this method.
    MethodNotAllowed,
    /// The route cannot answer in what the request accepts.
    NotAcceptable,
    /// The card has its answer.
    AlreadyDecided,
    /// The session is at work and did not stop in time.
    SessionBusy,
    /// The idempotency key stands for another request.
    IdempotencyKeyReused,
    /// The card asks for something else.
    WrongAnswer,
    /// Somebody has changed the captured action since.
    StaleAction,
    /// As it stands, this cannot be done with it.
    WrongState,
    /// A fork names a place the session does not have.
    NoSuchPlace,
    /// The body or a part of it is over its limit.
    TooLarge,
    /// The body is not `application/json`.
    UnsupportedMediaType,
    /// A field is wrong.
    InvalidRequest,
    /// Too many requests in a short time.
    RateLimited,
    /// Too many event streams at once.
    TooManyStreams,
    /// The quota of tokens or money is used up.
    QuotaExceeded,
    /// A defect; the log has the request's id.
    Internal,
    /// The store or another part is away for the moment.
    Unavailable,
    /// The server shuts down.
    ShuttingDown,
    /// The disk is full.
    StorageFull,
}

impl Code {
    const fn status(self) -> StatusCode {
        use Code::*;
        match self {
            MalformedBody | MalformedQuery | MalformedHeader => StatusCode::BAD_REQUEST,
            Unauthenticated => StatusCode::UNAUTHORIZED,
            OriginRefused => StatusCode::FORBIDDEN,
            NotFound => StatusCode::NOT_FOUND,
            MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            NotAcceptable => StatusCode::NOT_ACCEPTABLE,
            AlreadyDecided | SessionBusy | IdempotencyKeyReused | WrongAnswer | StaleAction
            | WrongState | NoSuchPlace => StatusCode::CONFLICT,
            TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            InvalidRequest => StatusCode::UNPROCESSABLE_ENTITY,
            RateLimited | TooManyStreams | QuotaExceeded => StatusCode::TOO_MANY_REQUESTS,
            Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Unavailable | ShuttingDown | StorageFull => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    const fn title(self) -> &'static str {
        use Code::*;
        match self {
            MalformedBody => "The body cannot be read",
            MalformedQuery => "The address cannot be read",
            MalformedHeader => "A header cannot be read",
            Unauthenticated => "No valid credentials",
            OriginRefused => "Refused for this origin",
            NotFound => "Not found",
            MethodNotAllowed => "Not with this method",
            NotAcceptable => "Not in this form",
            AlreadyDecided => "Already decided",
            SessionBusy => "The session is at work",
            IdempotencyKeyReused => "The idempotency key was used for another request",
            WrongAnswer => "The card asks for something else",
            StaleAction => "The action has changed",
            WrongState => "Not as it stands",
            NoSuchPlace => "No such place in the session",
            TooLarge => "Too large",
            UnsupportedMediaType => "Only application/json is taken",
            InvalidRequest => "The request is not valid",
            RateLimited => "Too many requests",
            TooManyStreams => "Too many streams",
            QuotaExceeded => "The quota is used up",
            Internal => "A defect of the server",
            Unavailable => "Not available for the moment",
            ShuttingDown => "The server shuts down",
            StorageFull => "The disk is full",
        }
    }
}

/// A field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FieldError {
    /// Which.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
}

/// A request that was not fulfilled. Nothing is half done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Which kind.
    pub code: Code,
    /// What happened, for people.
    pub detail: String,
    /// The fields that are wrong.
    pub errors: Vec<FieldError>,
    /// After how many seconds it may be different.
    pub retry_after: Option<u64>,
}

/// The document as it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemDocument {
    /// Always `about:blank`; `code` is what to go by.
    #[serde(rename = "type")]
    pub kind: String,
    /// The code in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// The stable code.
    pub code: Code,
    /// What happened, for people.
    pub detail: String,
    /// The fields that are wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
}

impl Problem {
    /// A problem of a kind.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), errors: Vec::new(), retry_after: None }
    }

    /// What everybody is told of what is not there, or not for them: one answer for all cases, so that it tells nothing.
    pub fn not_found() -> Self {
        Self::new(Code::NotFound, "There is no such thing, or it is not yours to see.")
    }

    /// A field that is wrong.
    pub fn field(field: impl Into<String>, message: impl Into<String>) -> Self {
        let (field, message) = (field.into(), message.into());
        let detail = format!("{field}: {message}");
        let errors = vec![FieldError { field, message }];
        Self { code: Code::InvalidRequest, detail, errors, retry_after: None }
    }

    /// A field that holds more than it may.
    pub fn too_large(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: Code::TooLarge, ..Self::field(field, message) }
    }

    /// With the seconds after which it may be different.
    #[must_use]
    pub const fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// A defect. What it was goes to the log, not to the caller.
    pub fn internal(cause: &dyn std::fmt::Display) -> Self {
        tracing::error!("a request failed: {cause}");
        Self::new(Code::Internal, "The server failed to handle the request; its log says more.")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.code.status();
        let document = ProblemDocument {
            kind: "about:blank".to_owned(),
            title: self.code.title().to_owned(),
            status: status.as_u16(),
            code: self.code,
            detail: self.detail,
            errors: self.errors,
        };
        let body = serde_json::to_vec(&document).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.code == Code::Unauthenticated {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(self.code);
        response
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound { .. } => Self::not_found(),
            StoreError::Busy { .. } | StoreError::Fenced { .. } => Self::new(
                Code::SessionBusy,
                "Somebody works on the session at this moment; try again.",
            )
            .retry_after(1),
            StoreError::Conflict { what } => what.into(),
            StoreError::Full { .. } => {
                tracing::error!("{}", error.report());
                Self::new(Code::StorageFull, "There is no room left to store anything.")
                    .retry_after(30)
            }
            StoreError::Unavailable { .. } => {
                tracing::warn!("{}", error.report());
                Self::new(Code::Unavailable, "The database cannot be reached; try again.")
                    .retry_after(1)
            }
            other => Self::internal(&other.report()),
        }
    }
}

impl From<Conflict> for Problem {
    fn from(conflict: Conflict) -> Self {
        let code = match &conflict {
            Conflict::Decided { .. } | Conflict::Expired { .. } => Code::AlreadyDecided,
            Conflict::WrongAnswer { .. } => Code::WrongAnswer,
            Conflict::KeyReused { .. } => Code::IdempotencyKeyReused,
            Conflict::Stale { .. } | Conflict::BeingApplied { .. } => Code::StaleAction,
            Conflict::JobStands { .. } => Code::WrongState,
            Conflict::NoSuchPlace(_) => Code::NoSuchPlace,
            Conflict::TurnOpen { .. } | Conflict::NotTheOpenTurn { .. } => Code::SessionBusy,
            other => return Self::internal(other),
        };
        Self::new(code, conflict.to_string())
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Store(e) => e.into(),
            EngineError::Content(e) => {
                use turnbuckle_core::content::ContentError::*;
                let code = match e {
                    TooMuchText { .. } | TooLarge { .. } | TooLargeTogether { .. } => {
                        Code::TooLarge
                    }
                    _ => Code::InvalidRequest,
                };
                Self::new(code, e.to_string())
            }
            other => Self::internal(&other),
        }
    }
}

/// The result of a route.
pub type Answer<T> = Result<T, Problem>;
