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

## Whether its lines are for people ("text") or for machines ("json"). Environment: TURNBUCKLE_LOG_FORMAT.
## Secrets are taken out of every line either way.
# log_format = "text"

## How sessions get their titles: "first-message" (its beginning), "off", or a small model that writes them.
# titles = "first-message"

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

## Traces of turns, model calls and tool calls, by the OpenTelemetry conventions for generative AI.
# [telemetry]
## Where they go: the address of a collector that takes OTLP as protobuf over HTTP. Without one there are none.
## Environment: OTEL_EXPORTER_OTLP_ENDPOINT and the other standard variables, which win.
# otlp_endpoint = "http://127.0.0.1:4318"
## Whether they hold what people, models and tools say. Environment: OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT.
# content = false

## Rules about tool calls, tried in order; the first that matches decides: "allow", "ask" or "deny".
## A rule may name tool, agent, user (a trailing * stands for any ending), taint, and tests of arguments.
# [[policy.rules]]
# tool = "refund_*"
# decision = "ask"
# reason = "refunds are confirmed by a person"

## A provider of models. Known names need only a key: openai, anthropic, gemini, openrouter, deepseek, xai, mistral, groq,
## together, fireworks, qwen, kimi, ollama, llamacpp, vllm, lmstudio. Clouds need to know where, too: azure, azure-deployments,
## bedrock, bedrock-openai, vertex, vertex-anthropic (see docs/models.md). Any other name needs a base_url.
# [providers.my-gateway]
## Another of a known provider, such as a second region.
# like = "openai"
## openai-chat, openai-responses, anthropic, gemini or ollama.
# wire = "openai-chat"
## The quirks of the server, by a known server's name.
# profile = "openai"
# base_url = "https://models.example.com/v1"
# api_key_env = "MY_GATEWAY_KEY"
## A file wins over the variable.
# api_key_file = "gateway.key"
## Calls at once.
# max_concurrency = 256
## Calls per minute that the account allows, when you know: no minute ever sees more. Otherwise it is learnt from refusals.
# requests_per_minute = 500
## The largest answer accepted, in bytes.
# max_response_bytes = 67108864
## Settings of the wire, laid over the profile.
# options = { stream_options = true }
## Where in a cloud: resource, api_version (Azure), region (Bedrock), project, location (Vertex).
# place = { region = "eu-central-1" }
## How calls are authorised where a key is not all: kind is key, bearer, entra, aws or google.
# auth = { kind = "aws", profile = "dev" }
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

## Where sessions and API keys are kept.
# [store]
## Without an address they are in the data folder, which is one process's at a time. Several processes share a Postgres
## database, or a file of one machine (sqlite:PATH); memory: keeps nothing. The desk stays in the data folder.
## Environment: TURNBUCKLE_STORE, which is the place for an address with a password. Flag: --store.
# url = "postgres://turnbuckle@db.example.com/turnbuckle?sslmode=verify-full"
## Connections of one process to a Postgres database for sessions. Keys take up to 8 more, a bus on Postgres 2.
# connections = 16
## How long a session stays with a process that has fallen silent.
# lease_ms = 8000

## The server: `turnbuckle serve`.
# [server]
## Address and port. Without authentication only this machine may be served.
## Environment: TURNBUCKLE_LISTEN. Flags: --listen, --port.
# listen = "127.0.0.1:7777"
## Pages of these origins may call the API; its own always may.
# cors = ["https://app.example.com"]
## How processes tell each other what happens: "memory:" (one process), "poll:" (they look into the store every second),
## postgres://..., redis://... or nats://... Without it: the store's own database, if that is Postgres; poll: for a shared file.
## Environment: TURNBUCKLE_BUS, which is the place for an address with a password.
# bus = "memory:"
## What the processes of one service speak on. Services that share a server of the bus need different ones.
# bus_channel = "turnbuckle"
## An address of its own for /healthz, /readyz and /metrics, which needs no key: for whoever watches over the process, not for
## the public. Environment: TURNBUCKLE_OPERATORS.
# operators = "127.0.0.1:9464"

# [server.limits]
## Bytes of a request, messages apart.
# body_bytes = 1048576
## References of a message, and bytes of one.
# references = 32
# reference_bytes = 65536
## Tools that a front end may offer with a message, and bytes of the schema and the description of one.
# tools = 64
# tool_bytes = 16384
## Event streams, in all and of one user.
# streams = 10000
# streams_per_user = 64
## Requests of one user: per second over some time (0: any number), and in a burst.
# requests_per_second = 50
# burst = 200

## What a message may hold, in bytes.
# [server.limits.message]
# max_text_bytes = 4194304
# max_parts = 32
# max_image_bytes = 5242880
# max_file_bytes = 16777216
# max_total_bytes = 25165824

# [server.worker]
## Sessions at work at once.
# sessions = 1000
## How often it looks for work that nobody told it about.
# poll_ms = 1000
## When it ends: how long turns may go on, and then how long running tools may take.
# grace_ms = 20000
# tool_grace_ms = 10000

# [server.auth]
## Whether every request needs credentials. It does anyway as soon as there is an API key or a JWT is set up.
# required = true

## Tokens of an identity provider: a shared secret (HS256), or its published key set.
# [server.auth.jwt]
# secret_env = "TURNBUCKLE_JWT_SECRET"
## A file wins over the variable.
# secret_file = "jwt.secret"
# jwks_url = "https://login.example.com/.well-known/jwks.json"
# issuer = "https://login.example.com/"
# audience = "turnbuckle"
# tenant_claim = "tenant"
# user_claim = "sub"
# roles_claim = "roles"
## Of a token that lists no roles: user, approver, operator, admin.
# default_roles = ["user"]

## How much may be used: of each "tenant", each "user" or each API "key" (or `only` the one of that id), per "day" or "month" in
## UTC. Asked before every model call.
# [[server.quotas]]
# of = "user"
# per = "day"
# only = "ada"
## New work in tokens, and millionths of a US dollar.
# tokens = 1000000
# cost_micros = 5000000
"##;
