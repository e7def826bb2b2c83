//! Model endpoints: transport, retries, catalogue, tokens, rehearsal models.
