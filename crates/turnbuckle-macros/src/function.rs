//! What the attribute needs to know of the function it stands on.

use syn::{Attribute, Error, Expr, FnArg, ItemFn, Lit, Meta, Result, ReturnType, Type};

/// The parameters of a function, by what they are.
pub struct Parameters {
    /// The type of the arguments.
    pub args: Option<Type>,
    /// Where the arguments and the context stand, in the function's own order.
    pub order: Vec<Parameter>,
}

/// What a parameter is.
#[derive(Clone, Copy, PartialEq)]
pub enum Parameter {
    Args,
    Context,
}

/// Checks that a function can be a tool, and sorts its parameters.
pub fn parameters(function: &ItemFn) -> Result<Parameters> {
    let sig = &function.sig;
    if sig.asyncness.is_none() {
        return Err(Error::new_spanned(
            sig.fn_token,
            "a tool is an async function; write `async fn`",
        ));
    }
    if !sig.generics.params.is_empty() {
        return Err(Error::new_spanned(&sig.generics, "a tool cannot be generic; name the types"));
    }
    check_result(&sig.output, sig)?;
    let mut found = Parameters { args: None, order: Vec::new() };
    for input in &sig.inputs {
        let FnArg::Typed(input) = input else {
            return Err(Error::new_spanned(
                input,
                "a tool is a free function; take what it needs from the context",
            ));
        };
        let kind = match &*input.ty {
            Type::Reference(reference) => {
                return Err(Error::new_spanned(
                    reference,
                    "a tool owns its parameters, since it outlives the call; remove the `&`",
                ));
            }
            Type::Path(path)
                if path.path.segments.last().is_some_and(|s| s.ident == "ToolContext") =>
            {
                Parameter::Context
            }
            _ => Parameter::Args,
        };
        if found.order.contains(&kind) {
            let text = match kind {
                Parameter::Args => {
                    "a tool takes its arguments as one value; put them into a struct"
                }
                Parameter::Context => "the context is given once",
            };
            return Err(Error::new_spanned(input, text));
        }
        if kind == Parameter::Args {
            found.args = Some((*input.ty).clone());
        }
        found.order.push(kind);
    }
    Ok(found)
}

fn check_result(output: &ReturnType, sig: &syn::Signature) -> Result<()> {
    let text = "a tool returns a `Result`, so that it can say how to mend a call";
    let ReturnType::Type(_, returned) = output else {
        return Err(Error::new_spanned(&sig.ident, text));
    };
    match &**returned {
        Type::Path(path)
            if path
                .path
                .segments
                .last()
                .is_some_and(|s| s.ident.to_string().ends_with("Result")) =>
        {
            Ok(())
        }
        other => Err(Error::new_spanned(other, text)),
    }
}

/// The doc comment as text: lines of a paragraph are joined.
pub fn doc_text(attributes: &[Attribute]) -> String {
    let mut text = String::new();
    for attribute in attributes.iter().filter(|a| a.path().is_ident("doc")) {
        let Meta::NameValue(pair) = &attribute.meta else { continue };
        let Expr::Lit(literal) = &pair.value else { continue };
        let Lit::Str(line) = &literal.lit else { continue };
        let line = line.value();
        for line in line.split('\n').map(str::trim) {
            let listed = line.starts_with(['-', '*', '|', '#']) || line.starts_with("```");
            match (line.is_empty(), text.is_empty()) {
                (true, _) => text.push_str("\n\n"),
                (false, true) => {}
                (false, false) if text.ends_with('\n') => {}
                (false, false) => text.push(if listed { '\n' } else { ' ' }),
            }
            text.push_str(line);
        }
    }
    while text.contains("\n\n\n") {
        text = text.replace("\n\n\n", "\n\n");
    }
    text.trim().to_owned()
}
