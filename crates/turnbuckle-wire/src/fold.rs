//! What all decoders do alike: bytes are split into frames, frames folded into an answer, and an answer without a proper end
//! is an error that says what is missing.

use crate::answer::{Answer, Sink};
use crate::sse::Frame;
use crate::{Decoder, errors};
use turnbuckle_core::error::{ModelError, ModelErrorKind};
use turnbuckle_core::model::{Block, ModelResponse};
use turnbuckle_core::usage::{FinishReason, Usage};

/// Splits bytes into frames.
pub(crate) trait Split: Default + Send {
    /// Takes the next bytes and hands every frame they complete to `on`.
    fn feed(
        &mut self,
        bytes: &[u8],
        on: &mut impl FnMut(Frame<'_>) -> Result<(), ModelError>,
    ) -> Result<(), ModelError>;

    /// Hands out what is left at the end.
    fn finish(
        &mut self,
        on: &mut impl FnMut(Frame<'_>) -> Result<(), ModelError>,
    ) -> Result<(), ModelError>;

    /// Whether the body is one plain document rather than a stream.
    fn is_plain(&self) -> bool;

    /// The beginning of what came when it belongs to no such stream at all.
    fn foreign(&self) -> Option<String>;
}

/// Folds the frames of one wire.
pub(crate) trait Fold: Send {
    /// How the wire's bytes are split.
    type Splitter: Split;
    /// Said of a document that is none of the wire's answers.
    const NO_ANSWER: &'static str;
    /// Said of an answer whose terminal event is missing.
    const NO_END: &'static str;

    /// Takes a frame.
    fn frame(&mut self, frame: &Frame<'_>, sink: &mut Sink<'_>) -> Result<(), ModelError>;

    /// Reports what had to wait for the end.
    fn settle(&mut self, _sink: &mut Sink<'_>) {}

    fn answer(&self) -> &Answer;

    fn answer_mut(&mut self) -> &mut Answer;

    fn usage(&self) -> Usage;

    fn finish_reason(&self) -> FinishReason {
        self.answer().finish_reason()
    }

    /// Gives the blocks their payloads, which may have come at any time.
    fn decorate(&self, blocks: &mut [Block]);

    /// Whether nothing more need be read.
    fn is_complete(&self) -> bool;
}

/// The decoder of a wire.
#[derive(Debug)]
pub(crate) struct Folding<F: Fold> {
    splitter: F::Splitter,
    fold: F,
}

impl<F: Fold> Folding<F> {
    pub fn new(fold: F) -> Self {
        Self { splitter: F::Splitter::default(), fold }
    }

    fn response(&self, mut blocks: Vec<Block>) -> ModelResponse {
        self.fold.decorate(&mut blocks);
        self.fold.answer().response(blocks, self.fold.finish_reason(), self.fold.usage())
    }
}

impl<F: Fold> Decoder for Folding<F> {
    fn feed(&mut self, bytes: &[u8], sink: &mut Sink<'_>) -> Result<(), ModelError> {
        let fold = &mut self.fold;
        self.splitter.feed(bytes, &mut |frame| fold.frame(&frame, sink))
    }

    fn finish(&mut self, sink: &mut Sink<'_>) -> Result<ModelResponse, ModelError> {
        let plain = self.splitter.is_plain();
        let fold = &mut self.fold;
        self.splitter.finish(&mut |frame| fold.frame(&frame, sink))?;
        fold.settle(sink);
        let answer = fold.answer();
        if answer.torn {
            return Err(errors::cut("the answer ends inside an event"));
        }
        if answer.finish.is_none() {
            return Err(match self.splitter.foreign() {
                Some(page) => ModelError::new(
                    ModelErrorKind::Protocol,
                    format!("the answer is neither an event stream nor JSON; it begins: {page}"),
                ),
                None if plain && !answer.begun => {
                    ModelError::new(ModelErrorKind::Protocol, F::NO_ANSWER)
                }
                None => errors::cut(F::NO_END),
            });
        }
        // Taken before its finish reason is read, which looks at the blocks.
        let finish = fold.finish_reason();
        let mut blocks = std::mem::take(&mut fold.answer_mut().blocks);
        fold.decorate(&mut blocks);
        Ok(fold.answer().response(blocks, finish, fold.usage()))
    }

    fn partial(&self) -> ModelResponse {
        self.response(self.fold.answer().blocks.clone())
    }

    fn is_complete(&self) -> bool {
        self.fold.is_complete()
    }
}
