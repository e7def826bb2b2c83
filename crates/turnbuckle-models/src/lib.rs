//! Model endpoints: the only place that knows providers.
//!
//! | module | holds |
//! |---|---|
//! | [`model`] | the trait through which every model is called |
//! | [`catalogue`] | windows, limits, prices, capabilities |

pub mod catalogue;
pub mod model;

pub use catalogue::ModelInfo;
pub use model::{CallFailure, DeltaSink, Model, NoDeltas};
pub use turnbuckle_core::retry;
