//! The knowledge base.

use serde_json::Value;
use turnbuckle::core::error::ToolError;
use turnbuckle::tool;
use turnbuckle::tool::{FnTool, ToolContext};

use super::digest::{list_digest, list_summary, pick};
use super::forgive::forgiving;
use crate::agent::members::{acting, told};
use crate::query::{Article, GetArticle, KnowledgeResults, SearchKnowledge};

pub(crate) fn search_knowledge() -> FnTool {
    forgiving(search())
        .digest(|output| list_digest(output, "results", &["title"]))
        .summary(|output| list_summary(output, "results", "articles", &["title"]))
}

/// Searches the knowledge base for articles, best first, each with the passage that fits best. Ask for the audience
/// `public` when a customer will read what you make of it.
#[tool(name = "search_knowledge", effect = "read_only", retention = "summary")]
async fn search(args: SearchKnowledge, ctx: ToolContext) -> Result<KnowledgeResults, ToolError> {
    let (desk, caller) = acting(&ctx).await?;
    desk.search_knowledge(&caller, &args).await.map_err(told)
}

pub(crate) fn get_article() -> FnTool {
    forgiving(article())
        .digest(|output| {
            pick(output, &[("title", "title"), ("category", "category"), ("audience", "audience")])
        })
        .summary(|output| {
            let text = |field: &str| output.get(field).and_then(Value::as_str);
            Some(format!("{} ({}), {}", text("id")?, text("title")?, text("audience")?))
        })
}

/// Reads one article of the knowledge base, whole.
#[tool(name = "get_article", effect = "read_only", retention = "summary")]
async fn article(args: GetArticle, ctx: ToolContext) -> Result<Article, ToolError> {
    let (desk, caller) = acting(&ctx).await?;
    desk.get_article(&caller, &args).await.map_err(told)
}
