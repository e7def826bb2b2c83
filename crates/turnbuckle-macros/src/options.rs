//! The options of the attribute, as calls on the contract.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{Error, Ident, LitInt, LitStr, Path, Result, Token, Type};

const KNOWN: [&str; 17] = [
    "name",
    "title",
    "description",
    "effect",
    "approval",
    "category",
    "retention",
    "timeout_ms",
    "expires_after_ms",
    "output_cap",
    "usage_notes",
    "selection_rule",
    "taint",
    "output",
    "amendable",
    "crate",
    "ends_turn, exclusive, uncounted",
];

/// What the attribute says.
#[derive(Default)]
pub struct Options {
    pub name: Option<LitStr>,
    pub description: Option<LitStr>,
    pub krate: Option<Path>,
    settings: Vec<(Setting, TokenStream)>,
    given: Vec<String>,
}

/// How a setting becomes a call on the contract.
enum Setting {
    /// `.method(value)`
    Value(&'static str),
    /// `.method(path::Value)`, the path being relative to the module of tools
    Choice(&'static str),
    /// `.method(Duration)`
    Millis(&'static str),
    /// `.method::<Type>()`
    Type(&'static str),
    /// `.method()`
    Flag(&'static str),
}

impl Options {
    /// The calls on the contract.
    pub fn settings(&self, krate: &TokenStream) -> TokenStream {
        let calls = self.settings.iter().map(|(setting, value)| {
            let method = |name: &str| Ident::new(name, Span::call_site());
            match setting {
                Setting::Value(name) => {
                    let method = method(name);
                    quote!(.#method(#value))
                }
                Setting::Choice(name) => {
                    let method = method(name);
                    quote!(.#method(#krate::tool::#value))
                }
                Setting::Millis(name) => {
                    let method = method(name);
                    quote!(.#method(::core::time::Duration::from_millis(#value)))
                }
                Setting::Type(name) => {
                    let method = method(name);
                    quote!(.#method::<#value>())
                }
                Setting::Flag(name) => {
                    let method = method(name);
                    quote!(.#method())
                }
            }
        });
        quote!(#(#calls)*)
    }

    fn read(&mut self, key: &Ident, input: ParseStream<'_>) -> Result<()> {
        let name = key.to_string();
        if name != "taint" && self.given.contains(&name) {
            return Err(Error::new(key.span(), format!("`{name}` is given twice")));
        }
        match name.as_str() {
            "name" => {
                let text: LitStr = value(key, input)?;
                if text.value().is_empty() {
                    return Err(Error::new(text.span(), "the name of a tool cannot be empty"));
                }
                self.name = Some(text);
            }
            "description" => self.description = Some(value(key, input)?),
            "crate" => {
                equals(key, input)?;
                self.krate = Some(Path::parse_mod_style(input)?);
            }
            "title" => self.text("title", key, input)?,
            "usage_notes" => self.text("usage_notes", key, input)?,
            "selection_rule" => self.text("selection_rule", key, input)?,
            "taint" => self.text("taint", key, input)?,
            "effect" => {
                let choices = [
                    ("read_only", "SideEffect::ReadOnly"),
                    ("idempotent", "SideEffect::Idempotent"),
                    ("at_most_once", "SideEffect::AtMostOnce"),
                ];
                self.choice("effect", &choices, key, input)?;
            }
            "approval" => {
                let choices = [("never", "Approval::Never"), ("always", "Approval::Always")];
                self.choice("approval", &choices, key, input)?;
            }
            "category" => {
                let choices = [
                    ("control", "Category::Control"),
                    ("system", "Category::System"),
                    ("capability", "Category::Capability"),
                ];
                self.choice("category", &choices, key, input)?;
            }
            "retention" => {
                let choices = [("keep", "Retention::Keep"), ("summary", "Retention::Summary")];
                self.choice("retention", &choices, key, input)?;
            }
            "timeout_ms" => self.number(Setting::Millis("timeout"), key, input)?,
            "expires_after_ms" => self.number(Setting::Millis("expires_after"), key, input)?,
            "output_cap" => self.number(Setting::Value("output_cap"), key, input)?,
            "output" => self.type_of("output", key, input)?,
            "amendable" => self.type_of("amendable", key, input)?,
            "ends_turn" => self.flag("ends_turn", input)?,
            "exclusive" => self.flag("exclusive", input)?,
            "uncounted" => self.flag("uncounted", input)?,
            _ => {
                let text =
                    format!("there is no option `{name}`; the options are {}", KNOWN.join(", "));
                return Err(Error::new(key.span(), text));
            }
        }
        self.given.push(name);
        Ok(())
    }

    fn text(&mut self, method: &'static str, key: &Ident, input: ParseStream<'_>) -> Result<()> {
        let text: LitStr = value(key, input)?;
        self.settings.push((Setting::Value(method), text.into_token_stream()));
        Ok(())
    }

    fn number(&mut self, setting: Setting, key: &Ident, input: ParseStream<'_>) -> Result<()> {
        let number: LitInt = value(key, input)?;
        number.base10_parse::<u64>()?;
        self.settings.push((setting, number.into_token_stream()));
        Ok(())
    }

    fn type_of(&mut self, method: &'static str, key: &Ident, input: ParseStream<'_>) -> Result<()> {
        let of: Type = value(key, input)?;
        self.settings.push((Setting::Type(method), of.into_token_stream()));
        Ok(())
    }

    fn flag(&mut self, method: &'static str, input: ParseStream<'_>) -> Result<()> {
        if input.peek(Token![=]) {
            return Err(
                input.error(format!("`{method}` takes no value; write it alone, or leave it out"))
            );
        }
        self.settings.push((Setting::Flag(method), TokenStream::new()));
        Ok(())
    }

    fn choice(
        &mut self,
        method: &'static str,
        choices: &[(&str, &str)],
        key: &Ident,
        input: ParseStream<'_>,
    ) -> Result<()> {
        let text: LitStr = value(key, input)?;
        let Some((_, path)) = choices.iter().find(|(name, _)| *name == text.value()) else {
            let names: Vec<String> = choices.iter().map(|(name, _)| format!("{name:?}")).collect();
            let text = Error::new(text.span(), format!("`{key}` is one of {}", names.join(", ")));
            return Err(text);
        };
        self.settings.push((Setting::Choice(method), path.parse()?));
        Ok(())
    }
}

fn equals(key: &Ident, input: ParseStream<'_>) -> Result<()> {
    match input.parse::<Token![=]>() {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::new(key.span(), format!("`{key}` needs a value: `{key} = ...`"))),
    }
}

fn value<T: Parse>(key: &Ident, input: ParseStream<'_>) -> Result<T> {
    equals(key, input)?;
    input.parse()
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut options = Self::default();
        while !input.is_empty() {
            // `crate` is a keyword.
            let key = input.call(Ident::parse_any)?;
            options.read(&key, input)?;
            if !input.is_empty() {
                let span = input.span();
                input
                    .parse::<Token![,]>()
                    .map_err(|_| Error::new(span.span(), "options are separated by commas"))?;
            }
        }
        Ok(options)
    }
}
