//! What a session and a person keep: the session's model, and what was allowed for good.

use crate::engine::{Engine, EngineError};
use crate::runtime::RuntimeError;
use turnbuckle_core::ids::{MessageId, SessionId, TenantId, UserId};
use turnbuckle_core::model::ModelRef;
use turnbuckle_store::{Allowance, SessionKey};

impl Engine {
    /// Chooses the model that a session keeps. It answers from the session's next turn on; one that runs or waits goes on with
    /// the model it began with.
    ///
    /// # Errors
    /// When there is no such model, and those of the store.
    pub async fn set_model(&self, key: &SessionKey, model: &ModelRef) -> Result<(), EngineError> {
        let models = &self.assembler().models;
        let found = models.resolve(Some(model)).map_err(RuntimeError::Model)?;
        Ok(self.store().set_model(key, &found.id().to_string()).await?)
    }

    /// What a person allowed for good, oldest first: all of it, or what is in force in a session.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn allowances(
        &self,
        tenant: &TenantId,
        user: &UserId,
        session: Option<&SessionId>,
    ) -> Result<Vec<Allowance>, EngineError> {
        Ok(self.store().allowances(tenant, user, session).await?)
    }

    /// Takes back something that a person allowed for good: they are asked again from then on.
    ///
    /// # Errors
    /// `NotFound` when the person has no such allowance, and those of the store.
    pub async fn take_back(
        &self,
        tenant: &TenantId,
        user: &UserId,
        allowance: &MessageId,
    ) -> Result<(), EngineError> {
        Ok(self.store().take_back(tenant, user, allowance).await?)
    }
}
