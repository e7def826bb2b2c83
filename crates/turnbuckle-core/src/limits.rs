//! The valves of the loop, with their defaults.

use serde::{Deserialize, Serialize};

/// Limits of a whole turn, counted over pauses, resumes and sub-agents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct TurnLimits {
    /// New work in tokens: uncached input, cache writes and output.
    pub max_tokens: u64,
    /// Model calls.
    pub max_model_calls: u32,
    /// Approvals asked for.
    pub max_approvals: u32,
    /// Tool calls.
    pub max_tool_calls: u32,
    /// Active time in milliseconds; waiting for people does not count.
    pub max_wall_ms: u64,
    /// Money in millionths of a US dollar; `None` means no limit.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub max_cost_micros: Option<u64>,
    /// Dispatches of one identical call.
    pub max_identical_calls: u32,
    /// Iterations in a row in which the same tool fails the same way.
    pub failure_streak: u32,
    /// Iterations in a row in which the same call succeeds while the text repeats.
    pub success_streak: u32,
    /// Tool calls run at once.
    pub tool_concurrency: usize,
    /// Attempts of one model call.
    pub model_attempts: u32,
    /// Times the model is asked again after an empty or cut answer.
    pub bad_output_retries: u32,
}

impl Default for TurnLimits {
    fn default() -> Self {
        Self {
            max_tokens: 200_000,
            max_model_calls: 50,
            max_approvals: 5,
            max_tool_calls: 200,
            max_wall_ms: 30 * 60 * 1000,
            max_cost_micros: None,
            max_identical_calls: 3,
            failure_streak: 3,
            success_streak: 3,
            tool_concurrency: 8,
            model_attempts: 3,
            bad_output_retries: 2,
        }
    }
}

/// Limits of one agent within a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentLimits {
    /// Model calls of the agent.
    pub max_iterations: u32,
    /// Tool calls the agent must have made before it may answer in text.
    pub min_tool_calls: u32,
}

impl Default for AgentLimits {
    fn default() -> Self {
        Self { max_iterations: 10, min_tool_calls: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_documented_ones() {
        let turn = TurnLimits {
            max_tokens: 200_000,
            max_model_calls: 50,
            max_approvals: 5,
            max_tool_calls: 200,
            max_wall_ms: 1_800_000,
            max_cost_micros: None,
            max_identical_calls: 3,
            failure_streak: 3,
            success_streak: 3,
            tool_concurrency: 8,
            model_attempts: 3,
            bad_output_retries: 2,
        };
        assert_eq!(TurnLimits::default(), turn);
        let agent = AgentLimits { max_iterations: 10, min_tool_calls: 0 };
        assert_eq!(AgentLimits::default(), agent);
        // What a configuration leaves out is at its default, too.
        assert_eq!(serde_json::from_str::<TurnLimits>("{}").unwrap(), turn);
        assert_eq!(serde_json::from_str::<AgentLimits>("{}").unwrap(), agent);
    }
}
