//! A running tool: a future of its output, or a stream of reports that ends with it.

use super::context::ToolContext;
use super::output::ToolOutput;
use futures_util::future::BoxFuture;
use futures_util::{Stream, StreamExt};
use turnbuckle_core::error::ToolError;
use turnbuckle_core::json::Json;

/// An execution, to be awaited by the pipeline.
pub struct ToolRun(pub(crate) BoxFuture<'static, Result<ToolOutput, ToolError>>);

/// What a tool that runs as a stream says.
#[derive(Clone, Debug, PartialEq)]
pub enum ToolEvent {
    /// It is under way.
    Progress(Json),
    /// It is done; nothing is read after this.
    Done(Box<Result<ToolOutput, ToolError>>),
}

impl ToolEvent {
    /// It is under way.
    pub fn progress(data: impl Into<Json>) -> Self {
        Self::Progress(data.into())
    }

    /// It is done.
    pub fn done(result: Result<ToolOutput, ToolError>) -> Self {
        Self::Done(Box::new(result))
    }
}

impl ToolRun {
    /// An execution as a future. It reports through [`ToolContext::report`].
    pub fn future(
        run: impl Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    ) -> Self {
        Self(Box::pin(run))
    }

    /// An execution whose result is known.
    pub fn ready(result: Result<ToolOutput, ToolError>) -> Self {
        Self::future(std::future::ready(result))
    }

    /// An execution as a stream of reports that ends with [`ToolEvent::Done`].
    pub fn stream(
        ctx: ToolContext,
        events: impl Stream<Item = ToolEvent> + Send + 'static,
    ) -> Self {
        Self::future(async move {
            let mut events = std::pin::pin!(events);
            while let Some(event) = events.next().await {
                match event {
                    ToolEvent::Progress(data) => ctx.report(data),
                    ToolEvent::Done(result) => return *result,
                }
            }
            Err(ToolError::failed(
                "the tool stopped without a result; whether it took effect is not known",
            ))
        })
    }
}
