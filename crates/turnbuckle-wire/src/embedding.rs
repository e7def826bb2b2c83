//! Embeddings over the wire: texts to bytes, answers to vectors. One request holds many texts.

use crate::EncodedRequest;
use crate::errors;
use crate::render::{Json, headers};
use serde::{Deserialize, Serialize};
use turnbuckle_core::error::{ModelError, ModelErrorKind};
use turnbuckle_core::model::Delivery;

/// What vectors are for. Some models embed a question otherwise than the documents that answer it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// To be found.
    #[default]
    Document,
    /// To find documents.
    Query,
}

/// Texts to embed.
#[derive(Clone, Copy, Debug)]
pub struct EmbedRequest<'a> {
    /// The provider's name of the model.
    pub model: &'a str,
    /// The texts; none of them empty.
    pub texts: &'a [String],
    /// What the vectors are for.
    pub purpose: Purpose,
    /// How long vectors shall be, for models that can shorten them.
    pub dimensions: Option<u32>,
}

/// Vectors in the order of their texts, as the provider gave them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EmbedAnswer {
    /// One per text, all of one length.
    pub vectors: Vec<Vec<f32>>,
    /// The tokens of all texts, where the provider says.
    pub tokens: Option<u64>,
}

/// A way to ask for embeddings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmbedWire {
    /// `POST /embeddings` of OpenAI and all who imitate it.
    OpenAi,
    /// `batchEmbedContents` of Gemini.
    Gemini,
    /// `POST /api/embed` of Ollama.
    Ollama,
}

impl EmbedWire {
    /// How a provider that is spoken to over `wire` is asked for embeddings; `None` when it has none.
    pub fn of(wire: &str) -> Option<Self> {
        match wire {
            crate::openai_chat::WIRE | crate::openai_responses::WIRE => Some(EmbedWire::OpenAi),
            crate::gemini::WIRE => Some(EmbedWire::Gemini),
            crate::ollama::WIRE => Some(EmbedWire::Ollama),
            _ => None,
        }
    }

    /// The path below the base URL; `{model}` stands for the model.
    pub const fn path(self) -> &'static str {
        match self {
            EmbedWire::OpenAi => "/embeddings",
            EmbedWire::Gemini => "/v1beta/models/{model}:batchEmbedContents",
            EmbedWire::Ollama => "/api/embed",
        }
    }

    /// The most texts the vendor takes in one request.
    pub const fn most_texts(self) -> usize {
        match self {
            EmbedWire::OpenAi => 2048,
            EmbedWire::Gemini => 100,
            EmbedWire::Ollama => 512,
        }
    }

    /// The most tokens the vendor takes in one request, over all its texts.
    pub const fn most_tokens(self) -> usize {
        match self {
            EmbedWire::OpenAi => 300_000,
            EmbedWire::Gemini => 20_000,
            EmbedWire::Ollama => 100_000,
        }
    }

    /// The request's bytes; `path` stands in for the usual one.
    pub fn encode(self, request: &EmbedRequest<'_>, path: Option<&str>) -> EncodedRequest {
        let mut body =
            Json::with_capacity(64 + request.texts.iter().map(|t| t.len() + 8).sum::<usize>());
        body.raw("{");
        match self {
            EmbedWire::OpenAi => {
                body.member("model", request.model);
                if let Some(dimensions) = request.dimensions {
                    body.member("dimensions", &dimensions);
                }
                body.member("input", request.texts);
            }
            EmbedWire::Gemini => {
                let model = format!("models/{}", request.model);
                let task = match request.purpose {
                    Purpose::Document => "RETRIEVAL_DOCUMENT",
                    Purpose::Query => "RETRIEVAL_QUERY",
                };
                body.name("requests").raw("[");
                for text in request.texts {
                    body.comma().raw("{").member("model", &model).member("taskType", task);
                    if let Some(dimensions) = request.dimensions {
                        body.member("outputDimensionality", &dimensions);
                    }
                    body.name("content").raw(r#"{"parts":[{"#).member("text", text).raw("}]}}");
                }
                body.raw("]");
            }
            EmbedWire::Ollama => {
                body.member("model", request.model);
                if let Some(dimensions) = request.dimensions {
                    body.member("dimensions", &dimensions);
                }
                // Cutting texts off silently would be a wrong answer.
                body.member("truncate", &false).member("input", request.texts);
            }
        }
        body.raw("}");
        EncodedRequest {
            path: path.unwrap_or(self.path()).replace("{model}", request.model),
            headers: headers(Delivery::Whole, ""),
            body: body.finish(),
        }
    }

    /// Reads the answer to a request of `texts` texts.
    ///
    /// # Errors
    /// [`Protocol`](ModelErrorKind::Protocol) when it does not hold exactly one vector for each, all of one length and finite;
    /// the provider's own error when it holds one.
    pub fn decode(self, texts: usize, body: &[u8]) -> Result<EmbedAnswer, ModelError> {
        let answer: Answer = serde_json::from_slice(body).map_err(|error| {
            errors::in_unknown_frame(body).unwrap_or_else(|| errors::unreadable(body, &error))
        })?;
        let answer = match (self, answer) {
            (EmbedWire::OpenAi, Answer { data: Some(rows), usage, .. }) => EmbedAnswer {
                vectors: in_order(rows)?,
                tokens: usage.and_then(|u| u.prompt_tokens.or(u.total_tokens)),
            },
            (EmbedWire::Gemini, Answer { embeddings: Some(Embeddings::Objects(rows)), .. }) => {
                EmbedAnswer { vectors: rows.into_iter().map(|r| r.values).collect(), tokens: None }
            }
            (
                EmbedWire::Ollama,
                Answer { embeddings: Some(Embeddings::Lists(vectors)), prompt_eval_count, .. },
            ) => EmbedAnswer { vectors, tokens: prompt_eval_count },
            _ => {
                return Err(errors::in_unknown_frame(body)
                    .unwrap_or_else(|| protocol("the answer holds no embeddings".to_owned())));
            }
        };
        check(&answer.vectors, texts)?;
        Ok(answer)
    }
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    data: Option<Vec<Row>>,
    #[serde(default)]
    embeddings: Option<Embeddings>,
    #[serde(default)]
    usage: Option<Usage>,
    #[serde(default)]
    prompt_eval_count: Option<u64>,
}

#[derive(Deserialize)]
struct Row {
    embedding: Vec<f32>,
    #[serde(default)]
    index: Option<usize>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Embeddings {
    Objects(Vec<Values>),
    Lists(Vec<Vec<f32>>),
}

#[derive(Deserialize)]
struct Values {
    values: Vec<f32>,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    total_tokens: Option<u64>,
}

/// The vectors by their indexes; servers that give none answer in order.
fn in_order(mut rows: Vec<Row>) -> Result<Vec<Vec<f32>>, ModelError> {
    if rows.iter().all(|row| row.index.is_some()) {
        rows.sort_by_key(|row| row.index);
        let exact = rows.iter().enumerate().all(|(at, row)| row.index == Some(at));
        if !exact {
            return Err(protocol(
                "the indexes of the embeddings are not those of the texts".to_owned(),
            ));
        }
    }
    Ok(rows.into_iter().map(|row| row.embedding).collect())
}

fn check(vectors: &[Vec<f32>], texts: usize) -> Result<(), ModelError> {
    if vectors.len() != texts {
        return Err(protocol(format!("{} embeddings came for {texts} texts", vectors.len())));
    }
    let length = vectors.first().map_or(0, Vec::len);
    if texts > 0 && length == 0 {
        return Err(protocol("an embedding is empty".to_owned()));
    }
    if vectors.iter().any(|v| v.len() != length) {
        return Err(protocol("the embeddings differ in length".to_owned()));
    }
    if vectors.iter().flatten().any(|x| !x.is_finite()) {
        return Err(protocol("an embedding holds what is no number".to_owned()));
    }
    Ok(())
}

fn protocol(message: String) -> ModelError {
    ModelError::new(ModelErrorKind::Protocol, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn body(wire: EmbedWire, purpose: Purpose, dimensions: Option<u32>) -> (String, Value) {
        let texts = ["a \"b\"".to_owned(), "c".to_owned()];
        let request = EmbedRequest { model: "m", texts: &texts, purpose, dimensions };
        let encoded = wire.encode(&request, None);
        (encoded.path, serde_json::from_slice(&encoded.body).unwrap())
    }

    #[test]
    fn requests_are_these() {
        assert_eq!(
            body(EmbedWire::OpenAi, Purpose::Query, Some(256)),
            (
                "/embeddings".into(),
                json!({"model": "m", "dimensions": 256, "input": ["a \"b\"", "c"]})
            )
        );
        let part = |text: &str| {
            json!({"model": "models/m", "taskType": "RETRIEVAL_QUERY", "outputDimensionality": 256,
                "content": {"parts": [{"text": text}]}})
        };
        assert_eq!(
            body(EmbedWire::Gemini, Purpose::Query, Some(256)),
            (
                "/v1beta/models/m:batchEmbedContents".into(),
                json!({"requests": [part("a \"b\""), part("c")]})
            )
        );
        assert_eq!(
            body(EmbedWire::Ollama, Purpose::Document, None),
            (
                "/api/embed".into(),
                json!({"model": "m", "truncate": false, "input": ["a \"b\"", "c"]})
            )
        );
    }

    fn read(wire: EmbedWire, texts: usize, body: &Value) -> Result<EmbedAnswer, ModelErrorKind> {
        wire.decode(texts, body.to_string().as_bytes()).map_err(|e| e.kind)
    }

    #[test]
    fn answers_are_read_in_the_order_of_the_texts() {
        let vectors = vec![vec![1.0, 0.5], vec![0.0, -2.0]];
        let rows = json!({"data": [{"index": 1, "embedding": [0, -2]}, {"index": 0, "embedding": [1, 0.5]}],
            "usage": {"prompt_tokens": 7, "total_tokens": 7}});
        let expected = EmbedAnswer { vectors: vectors.clone(), tokens: Some(7) };
        assert_eq!(read(EmbedWire::OpenAi, 2, &rows), Ok(expected));
        let plain = json!({"data": [{"embedding": [1, 0.5]}, {"embedding": [0, -2]}]});
        let expected = EmbedAnswer { vectors: vectors.clone(), tokens: None };
        assert_eq!(read(EmbedWire::OpenAi, 2, &plain), Ok(expected.clone()));
        let google = json!({"embeddings": [{"values": [1, 0.5]}, {"values": [0, -2]}]});
        assert_eq!(read(EmbedWire::Gemini, 2, &google), Ok(expected));
        let local = json!({"embeddings": [[1, 0.5], [0, -2]], "prompt_eval_count": 4});
        let expected = EmbedAnswer { vectors, tokens: Some(4) };
        assert_eq!(read(EmbedWire::Ollama, 2, &local), Ok(expected));
    }

    #[test]
    fn answers_that_do_not_fit_are_errors() {
        let bad = [
            json!({"data": [{"embedding": [1]}]}),
            json!({"data": [{"embedding": [1]}, {"embedding": [1, 2]}]}),
            json!({"data": [{"embedding": []}, {"embedding": []}]}),
            json!({"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}),
            json!({"data": [{"index": 0, "embedding": [1]}, {"index": 2, "embedding": [1]}]}),
            json!({"data": "no"}),
            json!({"object": "list"}),
            json!({"data": [{"embedding": [1e39]}, {"embedding": [1]}]}),
        ];
        for answer in bad {
            assert_eq!(
                read(EmbedWire::OpenAi, 2, &answer),
                Err(ModelErrorKind::Protocol),
                "{answer}"
            );
        }
        let told =
            json!({"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}});
        for wire in [EmbedWire::OpenAi, EmbedWire::Gemini, EmbedWire::Ollama] {
            assert_eq!(read(wire, 2, &told), Err(ModelErrorKind::RateLimited));
        }
    }
}
