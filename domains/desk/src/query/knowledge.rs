//! The knowledge base: ranked full-text search, and articles whole.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};

use super::args::{count, filled, limit, stamp, terms};
use super::resolve;
use super::words::{Audience, stored};
use crate::caller::{Caller, Right};
use crate::desk::Desk;
use crate::error::{DeskError, Result};
use crate::ids::{ArticleId, Kind};

/// What to look up.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchKnowledge {
    /// Words or a question.
    pub query: String,
    /// Only this category.
    #[serde(default)]
    pub category: Option<String>,
    /// Only articles for this audience; name `public` when a customer will read the answer.
    #[serde(default)]
    pub audience: Option<Audience>,
    /// How many at most; 5 unless told, never more than 10.
    #[serde(default)]
    pub limit: Option<i64>,
}

/// How much of the query the results hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KnowledgeMatch {
    /// Every word of it.
    AllWords,
    /// Some of its words, since no article holds all.
    SomeWords,
}

/// An article found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArticleHit {
    /// The article's id.
    pub id: ArticleId,
    /// Its short name in links.
    pub slug: String,
    /// Its title.
    pub title: String,
    /// Its category.
    pub category: String,
    /// Who it is for.
    pub audience: Audience,
    /// The passage that fits best.
    pub snippet: String,
    /// When it was last revised.
    pub updated_at: String,
}

/// Articles found, best first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnowledgeResults {
    /// The best of them.
    pub results: Vec<ArticleHit>,
    /// How many match in all.
    pub total: u64,
    /// How they match.
    pub matched: KnowledgeMatch,
    /// What to try when none matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

/// Which article to read.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GetArticle {
    /// The article: id, slug or title.
    pub article: String,
}

/// An article.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Article {
    /// The article's id.
    pub id: ArticleId,
    /// Its short name in links.
    pub slug: String,
    /// Its title.
    pub title: String,
    /// Its category.
    pub category: String,
    /// Who it is for.
    pub audience: Audience,
    /// Its text.
    pub body: String,
    /// When it was last revised.
    pub updated_at: String,
}

/// Words of questions that say nothing about their subject.
const STOP_WORDS: [&str; 40] = [
    "a", "an", "and", "are", "at", "be", "can", "do", "does", "for", "from", "has", "have", "how",
    "i", "if", "in", "is", "it", "its", "me", "my", "of", "on", "or", "our", "should", "that",
    "the", "their", "they", "this", "to", "was", "we", "what", "when", "where", "with", "you",
];

type Hit = (i64, String, String, String, String, String, i64, i64);

impl Desk {
    /// Articles about something, ranked by how well they fit (BM25, titles weighing most).
    ///
    /// # Errors
    /// When the query holds no word or the category does not exist.
    pub async fn search_knowledge(
        &self,
        caller: &Caller,
        args: &SearchKnowledge,
    ) -> Result<KnowledgeResults> {
        let words = terms("query", &args.query)?;
        let telling: Vec<String> = words
            .iter()
            .filter(|word| {
                let bare = word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
                !STOP_WORDS.contains(&bare.as_str())
            })
            .cloned()
            .collect();
        let words = if telling.is_empty() { words } else { telling };
        let mut tx = self.read().await?;
        let category = match filled("category", args.category.as_deref())? {
            None => None,
            Some(given) => Some(category(&mut tx, caller, given).await?),
        };
        let mut matched = KnowledgeMatch::AllWords;
        let mut hits = Vec::new();
        for (how, join) in
            [(KnowledgeMatch::AllWords, " AND "), (KnowledgeMatch::SomeWords, " OR ")]
        {
            matched = how;
            hits = hits_for(&mut tx, caller, &words.join(join), category.as_deref(), args).await?;
            if !hits.is_empty() {
                break;
            }
        }
        let total = count(hits.first().map_or(0, |hit| hit.7));
        let results = hits
            .into_iter()
            .map(|(id, slug, title, category, audience, snippet, updated_at, _)| {
                Ok(ArticleHit {
                    id: ArticleId(id),
                    slug,
                    title,
                    category,
                    audience: stored(&audience)?,
                    snippet: snippet.split_whitespace().collect::<Vec<_>>().join(" "),
                    updated_at: stamp(updated_at, &caller.zone),
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let suggestion = results.is_empty().then(|| {
            "No article you can read mentions any of these words; try a product's name or another \
             word for the problem."
                .to_owned()
        });
        Ok(KnowledgeResults { results, total, matched, suggestion })
    }

    /// One article, whole.
    ///
    /// # Errors
    /// When no article the caller may read answers to the reference.
    pub async fn get_article(&self, caller: &Caller, args: &GetArticle) -> Result<Article> {
        let mut tx = self.read().await?;
        let id = resolve::one(&mut tx, caller, Kind::Article, "article", &args.article).await?;
        let (slug, title, category, audience, body, updated_at): (_, _, _, String, _, i64) =
            sqlx::query_as(
                "SELECT slug, title, category, audience, body, updated_at FROM articles WHERE id = ?",
            )
            .bind(id)
            .fetch_one(&mut *tx)
            .await?;
        Ok(Article {
            id: ArticleId(id),
            slug,
            title,
            category,
            audience: stored(&audience)?,
            body,
            updated_at: stamp(updated_at, &caller.zone),
        })
    }
}

/// Which audiences' articles the caller gets.
fn push_audience(sql: &mut QueryBuilder<Sqlite>, caller: &Caller, asked: Option<Audience>) {
    if !caller.rights.has(Right::ReadInternalArticles) {
        sql.push(" AND a.audience = 'public'");
    }
    if let Some(audience) = asked {
        sql.push(" AND a.audience = ").push_bind(audience.as_str());
    }
}

async fn hits_for(
    conn: &mut SqliteConnection,
    caller: &Caller,
    expression: &str,
    category: Option<&str>,
    args: &SearchKnowledge,
) -> Result<Vec<Hit>> {
    // The rank can only be taken next to the match, and the count only outside of it.
    let mut sql = QueryBuilder::<Sqlite>::new(
        "WITH hit AS MATERIALIZED (
           SELECT rowid AS id, snippet(articles_text, 2, '', '', ' … ', 32) AS passage,
             bm25(articles_text, 6.0, 2.0, 1.0) AS rank
           FROM articles_text WHERE articles_text MATCH ",
    );
    sql.push_bind(expression.to_owned()).push(
        ") SELECT a.id, a.slug, a.title, a.category, a.audience, hit.passage, a.updated_at,
             count(*) OVER () FROM hit JOIN articles a ON a.id = hit.id WHERE 1 = 1",
    );
    push_audience(&mut sql, caller, args.audience);
    if let Some(category) = category {
        sql.push(" AND a.category = ").push_bind(category.to_owned());
    }
    sql.push(" ORDER BY hit.rank, a.id LIMIT ");
    sql.push_bind(limit(args.limit, 5, 10));
    Ok(sql.build_query_as().fetch_all(conn).await?)
}

async fn category(conn: &mut SqliteConnection, caller: &Caller, given: &str) -> Result<String> {
    let mut sql =
        QueryBuilder::<Sqlite>::new("SELECT DISTINCT a.category FROM articles a WHERE 1 = 1");
    push_audience(&mut sql, caller, None);
    sql.push(" ORDER BY a.category");
    let known: Vec<String> = sql.build_query_scalar().fetch_all(conn).await?;
    match known.iter().find(|name| name.eq_ignore_ascii_case(given)) {
        Some(name) => Ok(name.clone()),
        None => Err(DeskError::invalid_of("category", format!("{given:?} does not exist"), known)),
    }
}
