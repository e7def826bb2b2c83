//! How sessions get their titles.

use turnbuckle_core::model::ModelRef;

/// How a session gets its title, at the end of its first turn that completes. A title that a person gives always stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Titles {
    /// Only people and the domain give titles.
    Off,
    /// From the beginning of the person's first message, without a model.
    #[default]
    FirstMessage,
    /// A model writes it from the person's first message; a small one will do. Where it fails, as
    /// [`FirstMessage`](Titles::FirstMessage).
    Model(ModelRef),
}
