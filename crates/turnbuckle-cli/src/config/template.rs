//! The commented configuration that `turnbuckle init` writes. It names every key; as written it changes nothing.

/// The file. Prose begins with `##`; a key that is commented out stands as `# key = value`.
pub const TEMPLATE: &str = r##"## Configuration of turnbuckle. Everything is optional: what is commented out shows the default, or an example.
## Order: this file, then the environment, then flags; what comes later wins.
## Keys (secrets) never stand here: name an environment variable (api_key_env) or a file (api_key_file).
## `turnbuckle doctor` says what is in force.

## Which model answers: "provider:model", a model's name alone, or "rehearsal" for the scripted stand-in.
## Without it: the first provider whose key is set, then a server on this machine, then the rehearsal.
## Environment: TURNBUCKLE_MODEL. Flag: --model.
# model = "openai:gpt-5-mini"

## Which agent to talk to. Environment: TURNBUCKLE_AGENT. Flag: --agent.
# agent = "desk"

## The person the agent works for; their rights hold. Environment: TURNBUCKLE_USER. Flag: --user.
# user = "priya.raman@bramling.example"

## The organisation under which everything is stored.
# tenant = "local"

## The data folder, relative to this file; it holds sessions (turnbuckle.db) and the desk (desk.db).
## Without it: the platform's data folder. Environment: TURNBUCKLE_DATA. Flag: --data.
# data = "data"

## What is logged to stderr: off, error, warn, info, debug or trace. Environment: TURNBUCKLE_LOG. Flag: --log.
# log = "off"

## Whether to look for Ollama, llama.cpp, vLLM and LM Studio on their usual ports when no key is set.
# local_servers = true

## Limits of a whole turn, counted over pauses and sub-agents.
# [limits]
## New work in tokens: uncached input, cache writes and output.
# max_tokens = 200000
# max_model_calls = 50
# max_approvals = 5
# max_tool_calls = 200
## Active milliseconds; waiting for people does not count.
# max_wall_ms = 1800000
## Money in millionths of a US dollar; without it there is no limit.
# max_cost_micros = 500000
## How often one identical call is carried out.
# max_identical_calls = 3
## The same tool failing the same way so often in a row ends the turn.
# failure_streak = 3
## The same call succeeding with the same text so often in a row ends the turn.
# success_streak = 3
## Tool calls at once.
# tool_concurrency = 8
## Attempts of one model call.
# model_attempts = 3
## How often the model is asked again after an empty or cut answer.
# bad_output_retries = 2

## Rules about tool calls, tried in order; the first that matches decides: "allow", "ask" or "deny".
## A rule may name tool, agent, user (a trailing * stands for any ending), taint, and tests of arguments.
# [[policy.rules]]
# tool = "refund_*"
# decision = "ask"
# reason = "refunds are confirmed by a person"

## A provider of models. Known names need only a key: openai, anthropic, gemini, openrouter, deepseek, xai, mistral, groq,
## together, fireworks, qwen, kimi, ollama, llamacpp, vllm, lmstudio. Any other name needs a base_url.
# [providers.my-gateway]
## openai-chat, openai-responses, anthropic or gemini.
# wire = "openai-chat"
## The quirks of the server, by a known server's name.
# profile = "openai"
# base_url = "https://models.example.com/v1"
# api_key_env = "MY_GATEWAY_KEY"
## A file wins over the variable.
# api_key_file = "gateway.key"
## Calls at once.
# max_concurrency = 256
## The largest answer accepted, in bytes.
# max_response_bytes = 67108864
## Settings of the wire, laid over the profile.
# options = { stream_options = true }
## Further headers; their values are never printed.
# headers = { x-team = "support" }
# timeouts = { connect_ms = 10000, first_byte_ms = 300000, idle_ms = 120000 }
## What you know better of a model than the catalogue does. Prices are US dollars per million tokens.
# [providers.my-gateway.models."my-model"]
# context_window = 65536
# max_output_tokens = 8192
# prices = { input = 0.5, output = 1.5 }
# tokenizer = "o200k"
# capabilities = { tools = true, parallel_tools = true, images = false, reasoning = false, structured_output = false, prompt_cache = false }

## The scripted stand-in that plays when there is no model.
# [rehearsal]
## The pause after each word, in milliseconds. Environment: TURNBUCKLE_REHEARSAL_PACE_MS.
# pace_ms = 15

## The terminal.
# [chat]
## "auto", "always" or "never"; NO_COLOR switches it off.
# color = "auto"
## The editor for approvals, used even when input is piped; otherwise VISUAL or EDITOR on a terminal.
# editor = "nano"
"##;
