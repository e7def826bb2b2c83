//! The constructor that takes the function's place.

use crate::function::{Parameter, doc_text, parameters};
use crate::options::Options;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::{Error, ItemFn, Result, Visibility};

pub fn tool(options: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let options: Options = syn::parse2(options)?;
    let mut function: ItemFn = syn::parse2(item)
        .map_err(|e| Error::new(e.span(), "`#[tool]` stands on an async function"))?;
    let parameters = parameters(&function)?;

    let ident = function.sig.ident.clone();
    let name = options.name.as_ref().map_or_else(|| ident.to_string(), syn::LitStr::value);
    let docs: Vec<_> =
        function.attrs.iter().filter(|a| a.path().is_ident("doc")).cloned().collect();
    let description = match &options.description {
        Some(text) => text.value(),
        None => doc_text(&docs),
    };
    if description.trim().is_empty() {
        let text = "the model must be told what the tool does; write a doc comment, or `description = \"...\"`";
        return Err(Error::new_spanned(&ident, text));
    }

    let krate = match &options.krate {
        Some(path) => path.to_token_stream(),
        None => quote!(::turnbuckle),
    };
    let settings = options.settings(&krate);
    let vis = std::mem::replace(&mut function.vis, Visibility::Inherited);
    function.attrs.retain(|a| !a.path().is_ident("doc"));

    let passed = parameters.order.iter().map(|parameter| match parameter {
        Parameter::Args => quote!(args),
        Parameter::Context => quote!(ctx),
    });
    let takes_context = parameters.order.contains(&Parameter::Context);
    let ctx = if takes_context { quote!(ctx) } else { quote!(_) };
    let made = match &parameters.args {
        Some(args) => quote! {
            #krate::tool::FnTool::typed::<#args, _, _, _, _>(contract, |args, #ctx| #ident(#(#passed),*))
        },
        None => quote!(#krate::tool::FnTool::without_args(contract, |#ctx| #ident(#(#passed),*))),
    };
    Ok(quote! {
        #(#docs)*
        #vis fn #ident() -> #krate::tool::FnTool {
            #function
            let contract = #krate::tool::ToolContract::new(#name).description(#description) #settings;
            #made
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(options: TokenStream, item: TokenStream) -> String {
        tool(options, item).unwrap_err().to_string()
    }

    #[test]
    fn options_that_cannot_be_are_refused_with_what_can() {
        let item = quote! {
            /// Says the time.
            async fn time() -> Result<String, String> { Ok(String::new()) }
        };
        for (options, message) in [
            (
                quote!(effect = "pure"),
                "`effect` is one of \"read_only\", \"idempotent\", \"at_most_once\"",
            ),
            (quote!(approval = "sometimes"), "`approval` is one of \"never\", \"always\""),
            (quote!(effect), "`effect` needs a value: `effect = ...`"),
            (
                quote!(ends_turn = true),
                "`ends_turn` takes no value; write it alone, or leave it out",
            ),
            (quote!(exclusive exclusive), "options are separated by commas"),
            (quote!(exclusive, exclusive), "`exclusive` is given twice"),
            (quote!(name = ""), "the name of a tool cannot be empty"),
            (quote!(timeout_ms = "5"), "expected integer literal"),
        ] {
            assert_eq!(refused(options, item.clone()), message);
        }
        let unknown = refused(quote!(idempotent), item);
        assert!(
            unknown.starts_with("there is no option `idempotent`; the options are name, title,"),
            "{unknown}"
        );
    }

    #[test]
    fn functions_that_cannot_be_tools_are_refused_with_the_way_out() {
        for (item, message) in [
            (
                quote!(
                    struct X;
                ),
                "`#[tool]` stands on an async function",
            ),
            (
                quote!(
                    /** D. */
                    fn f() -> Result<(), String> {}
                ),
                "a tool is an async function; write `async fn`",
            ),
            (
                quote!(
                    /** D. */
                    async fn f<T>(a: T) -> Result<(), String> {}
                ),
                "a tool cannot be generic; name the types",
            ),
            (
                quote!(
                    /** D. */
                    async fn f(&self) -> Result<(), String> {}
                ),
                "a tool is a free function; take what it needs from the context",
            ),
            (
                quote!(
                    /** D. */
                    async fn f(ctx: &ToolContext) -> Result<(), String> {}
                ),
                "a tool owns its parameters, since it outlives the call; remove the `&`",
            ),
            (
                quote!(
                    /** D. */
                    async fn f(a: A, b: B) -> Result<(), String> {}
                ),
                "a tool takes its arguments as one value; put them into a struct",
            ),
            (
                quote!(
                    /** D. */
                    async fn f(a: ToolContext, b: x::ToolContext) -> Result<(), String> {}
                ),
                "the context is given once",
            ),
            (
                quote!(
                    /** D. */
                    async fn f() {}
                ),
                "a tool returns a `Result`, so that it can say how to mend a call",
            ),
            (
                quote!(
                    /** D. */
                    async fn f() -> String {}
                ),
                "a tool returns a `Result`, so that it can say how to mend a call",
            ),
            (
                quote!(
                    async fn f() -> Result<(), String> {}
                ),
                "the model must be told what the tool does; write a doc comment, or `description = \"...\"`",
            ),
        ] {
            assert_eq!(refused(TokenStream::new(), item), message);
        }
    }

    #[test]
    fn a_doc_comment_reads_as_paragraphs_and_lists() {
        let item: ItemFn = syn::parse_quote! {
            /// Finds threads
            /// by words.
            ///
            /// Give one of:
            /// - words
            /// - an id
            async fn f() {}
        };
        assert_eq!(
            doc_text(&item.attrs),
            "Finds threads by words.\n\nGive one of:\n- words\n- an id"
        );
    }
}
