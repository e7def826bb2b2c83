//! The `#[tool]` attribute: an async function becomes a tool.

mod expand;
mod function;
mod options;

use proc_macro::TokenStream;

/// Makes a tool of an async function.
///
/// The function takes its arguments as one value of a type that derives `Deserialize` and `JsonSchema`, a `ToolContext`,
/// both, or neither, and returns `Result<T, E>`: `T` is anything that serializes, or a `ToolOutput`; `E` is anything
/// that can be shown, or a `ToolError`. Its doc comment tells the model what the tool does. In the function's place stands
/// a constructor of the tool, whose methods attach hooks.
///
/// ```
/// use turnbuckle_engine::tool::{Tool, ToolContext};
/// use turnbuckle_macros::tool;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Refund {
///     /// The order's number.
///     order: String,
///     /// In cents.
///     amount: u64,
/// }
///
/// /// Refunds an order, wholly or in part.
/// #[tool(crate = turnbuckle_engine, effect = "idempotent", approval = "always", timeout_ms = 5000)]
/// async fn refund_order(args: Refund, ctx: ToolContext) -> Result<String, String> {
///     Ok(format!("refunded {} of {} under {}", args.amount, args.order, ctx.idempotency_key()))
/// }
///
/// let refund = refund_order().digest_args(|args| args.get("amount").cloned());
/// assert_eq!(refund.contract().description, "Refunds an order, wholly or in part.");
/// ```
///
/// | option | value | default |
/// |---|---|---|
/// | `name` | the name the model uses | the function's |
/// | `title` | the name for people | made of the name |
/// | `description` | what it does, for the model | the doc comment |
/// | `effect` | `"read_only"`, `"idempotent"`, `"at_most_once"` | `"at_most_once"` |
/// | `approval` | `"never"`, `"always"` | `"never"` |
/// | `category` | `"control"`, `"system"`, `"capability"` | `"capability"` |
/// | `retention` | `"keep"`, `"summary"` | `"keep"` |
/// | `timeout_ms`, `expires_after_ms` | milliseconds | the runtime's |
/// | `output_cap` | bytes | the runtime's |
/// | `usage_notes`, `selection_rule` | text for the system prompt | none |
/// | `taint` | a label that outputs put on the turn; may be given several times | none |
/// | `output` | a type whose schema is the output's | none |
/// | `amendable` | a type with the fields a person may change | none |
/// | `ends_turn`, `exclusive`, `uncounted` | | off |
/// | `crate` | the path that holds the module `tool` | `::turnbuckle` |
///
/// An option that does not exist is refused, as is a function that cannot be a tool:
///
/// ```compile_fail
/// # use turnbuckle_macros::tool;
/// /// Says the time.
/// #[tool(crate = turnbuckle_engine, read_only)]
/// async fn time() -> Result<String, String> { Ok("now".into()) }
/// ```
/// ```compile_fail
/// # use turnbuckle_macros::tool;
/// /// Says the time.
/// #[tool(crate = turnbuckle_engine)]
/// fn time() -> Result<String, String> { Ok("now".into()) }
/// ```
/// ```compile_fail
/// # use turnbuckle_macros::tool;
/// #[tool(crate = turnbuckle_engine)]
/// async fn undescribed() -> Result<String, String> { Ok("now".into()) }
/// ```
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    expand::tool(options.into(), item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}
