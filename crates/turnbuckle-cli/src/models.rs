//! Models: what is known of them, and a try.

use crate::choice;
use crate::cli::ModelsCommand;
use crate::config::Settings;
use crate::error::CliError;
use crate::exit::Exit;
use crate::signals::Interrupts;
use crate::term::markdown::Markdown;
use crate::term::words::{dollars, elapsed, usage};
use crate::term::{Screen, Style};
use std::time::Instant;
use turnbuckle::core::model::{ModelDelta, ModelRef, ModelRequest};
use turnbuckle::core::transcript::{Item, Transcript};
use turnbuckle::models::catalogue::{self, Capabilities, Host, Prices};
use turnbuckle::models::config::presets;
use turnbuckle::models::{ModelInfo, Providers};

/// Runs the command.
///
/// # Errors
/// When there is no such provider, or the call fails.
pub async fn run(settings: Settings, what: Option<ModelsCommand>) -> Result<Exit, CliError> {
    let providers = choice::providers(&settings);
    let mut screen = Screen::stdout(settings.color);
    match what.unwrap_or(ModelsCommand::List { filter: None }) {
        ModelsCommand::List { filter } => {
            list(&settings, &providers, filter.as_deref(), &mut screen)?
        }
        ModelsCommand::Show { name } => show(&settings, &providers, &name, &mut screen)?,
        ModelsCommand::Try { name, prompt } => {
            return attempt(&settings, &providers, &name, prompt, &mut screen).await;
        }
    }
    Ok(Exit::Completed)
}

fn list(
    settings: &Settings,
    providers: &Providers,
    filter: Option<&str>,
    screen: &mut Screen,
) -> Result<(), CliError> {
    let fits = |name: &str| filter.is_none_or(|f| name.to_lowercase().contains(&f.to_lowercase()));
    let head = format!(
        "{:<44} {:>9} {:>8}  {:<24} from",
        "model", "window", "output", "in / cached / out"
    );
    screen.line(Style::Bold, &head)?;
    for (provider, config) in &settings.providers {
        for model in config.models.keys() {
            let name = format!("{provider}:{model}");
            if fits(&name) {
                let info = providers.endpoint(provider)?.info(model);
                screen.line(Style::Plain, &row(&name, &info))?;
            }
        }
    }
    for (vendor, model, info) in catalogue::all() {
        let name = format!("{vendor}:{model}");
        if fits(&name) {
            screen.line(Style::Plain, &row(&name, &info))?;
        }
    }
    Ok(())
}

fn row(name: &str, info: &ModelInfo) -> String {
    format!(
        "{name:<44} {:>9} {:>8}  {:<24} {}",
        info.context_window,
        info.max_output_tokens,
        prices(info.prices.as_ref()),
        info.source
    )
}

fn prices(prices: Option<&Prices>) -> String {
    match prices {
        None => "not known".to_owned(),
        Some(p) if p.input == 0.0 && p.output == 0.0 => "free".to_owned(),
        Some(p) => {
            let cached = p.cache_read.map_or_else(|| "–".to_owned(), |c| format!("{c}"));
            format!("{} / {cached} / {}", p.input, p.output)
        }
    }
}

fn show(
    settings: &Settings,
    providers: &Providers,
    name: &str,
    screen: &mut Screen,
) -> Result<(), CliError> {
    let (label, info) = match choice::named(settings, name) {
        Some(model) if choice::is_rehearsal(&model) => {
            let rehearsal = choice::rehearsed(settings, String::new()).model;
            (rehearsal.id().to_string(), rehearsal.info().clone())
        }
        Some(model) => (model.to_string(), info_of(providers, &model)),
        None => {
            let vendor = catalogue::all().into_iter().find(|(_, n, _)| n == name).map(|(v, ..)| v);
            let host = vendor.as_deref().map_or(Host::Other, Host::Vendor);
            (name.to_owned(), catalogue::lookup(host, name))
        }
    };
    screen.line(Style::Bold, &label)?;
    let mut lines = vec![
        format!("window       {} tokens ({})", info.context_window, info.source),
        format!("output       {} tokens at most", info.max_output_tokens),
        format!("can          {}", abilities(info.capabilities)),
        format!("tokens       counted as {:?}", info.tokenizer),
    ];
    match &info.prices {
        None => lines.push("prices       not known".to_owned()),
        Some(p) => {
            let optional = |price: Option<f64>| {
                price.map_or_else(|| "as input".to_owned(), |p| format!("${p}"))
            };
            lines.push(format!("input        ${} per million tokens", p.input));
            lines.push(format!("from cache   {}", optional(p.cache_read)));
            lines.push(format!(
                "to cache     {} (5 min), {} (1 h)",
                optional(p.cache_write_5m),
                optional(p.cache_write_1h)
            ));
            lines.push(format!("output       ${} per million tokens", p.output));
            for tier in &p.tiers {
                lines.push(format!(
                    "above {} prompt tokens: input ${}, output ${}",
                    tier.above, tier.input, tier.output
                ));
            }
        }
    }
    for line in lines {
        screen.line(Style::Plain, &format!("  {line}"))?;
    }
    Ok(())
}

/// What is known of a provider's model, even before its key is set.
fn info_of(providers: &Providers, model: &ModelRef) -> ModelInfo {
    match providers.endpoint(&model.provider) {
        Ok(endpoint) => endpoint.info(&model.model),
        Err(_) => {
            let preset = presets().into_iter().find(|p| *p.name == *model.provider);
            catalogue::lookup(
                preset.as_ref().map_or(Host::Other, |p| p.host.as_host()),
                &model.model,
            )
        }
    }
}

fn abilities(c: Capabilities) -> String {
    let all = [
        (c.tools, "tools"),
        (c.parallel_tools, "parallel tools"),
        (c.images, "images"),
        (c.reasoning, "reasoning"),
        (c.structured_output, "structured output"),
        (c.prompt_cache, "prompt cache"),
    ];
    let can: Vec<&str> = all.into_iter().filter(|(can, _)| *can).map(|(_, name)| name).collect();
    if can.is_empty() { "text only".to_owned() } else { can.join(", ") }
}

async fn attempt(
    settings: &Settings,
    providers: &Providers,
    name: &str,
    prompt: String,
    screen: &mut Screen,
) -> Result<Exit, CliError> {
    let id = choice::named(settings, name).ok_or_else(|| {
        let known: Vec<String> = presets().into_iter().map(|p| p.name).collect();
        CliError::Failed(format!(
            "`{name}` is not of the form provider:model with a known provider; there are {}, and those of your configuration",
            known.join(", ")
        ))
    })?;
    let model = match choice::is_rehearsal(&id) {
        true => choice::rehearsed(settings, String::new()).model,
        false => providers.model(&id)?,
    };
    let mut interrupts = Interrupts::listen()?;
    let mut transcript = Transcript::default();
    transcript.push_item(Item::user(prompt));
    let request = ModelRequest::new(model.id().model.clone(), transcript);
    let mut markdown = Markdown::new(screen.ansi());
    let mut broken = None;
    let begin = Instant::now();
    let answer = {
        let mut sink = |delta: ModelDelta<'_>| {
            if let ModelDelta::Text { text, .. } = delta
                && let Err(e) = screen.raw(&markdown.push(text))
            {
                broken = Some(e);
            }
        };
        tokio::select! {
            answer = model.call(&request, &mut sink) => answer,
            () = interrupts.next() => return Ok(Exit::Aborted),
        }
    };
    if let Some(e) = broken {
        return Err(e.into());
    }
    screen.raw(&markdown.finish())?;
    screen.end_line()?;
    let answer = answer.map_err(|failure| failure.error)?;
    let cost = match model.info().cost_micros(&answer.usage) {
        Some(cost) => dollars(cost),
        None => "price not known".to_owned(),
    };
    let ms = begin.elapsed().as_millis() as u64;
    let line = format!("{} · {} · {cost} · {}", answer.model, usage(&answer.usage), elapsed(ms));
    screen.line(Style::Dim, &line)?;
    Ok(Exit::Completed)
}
