//! Captured actions: reading, reviewing, applying.

use crate::api::Api;
use crate::auth::access::{Want, needs};
use crate::auth::principal::Principal;
use crate::dto::{
    CapturedQuery, CapturedView, NewReviews, Page, ReviewReport, ReviewReports, Role, Verdict,
};
use crate::problem::{Answer, Problem};
use crate::request::limit;
use std::collections::BTreeMap;
use std::sync::Arc;
use turnbuckle_core::ids::{SessionKey, TurnId};
use turnbuckle_engine::{CapturedAction, Review};
use turnbuckle_store::Captured;

impl Api {
    /// Captured actions, oldest first: of one session, of the caller's, for an approver of the whole tenant.
    ///
    /// # Errors
    /// When the query is wrong, or asks for what is not the caller's; the store's.
    pub async fn captured(
        &self,
        who: &Principal,
        query: CapturedQuery,
    ) -> Answer<Page<CapturedView>> {
        let session = match &query.session {
            None => None,
            Some(id) => Some(self.session(who, id, Want::Read).await?.key.id),
        };
        let user = match (&session, who.is(Role::Approver)) {
            // Who may read the session was asked already.
            (Some(_), _) | (None, true) => None,
            (None, false) => {
                needs(who, Role::User)?;
                Some(who.user.clone())
            }
        };
        let after = query.cursor.map(|cursor| cursor.parse()).transpose();
        let page = turnbuckle_store::CapturedQuery {
            session,
            turn: query.turn.map(TurnId::from),
            user,
            status: query.status.map(Into::into),
            after: after.map_err(|e| Problem::field("cursor", format!("{e}")))?,
            limit: limit(query.limit, 50, 200)?,
            ..turnbuckle_store::CapturedQuery::of(who.tenant.clone())
        };
        let page = self.store().list_captured(page).await?;
        let titles = self.titles();
        let items = page.items.into_iter().map(|one| view(&one.session, one.captured, &titles));
        let items = items.collect::<Answer<_>>()?;
        Ok(Page { items, next: page.next.map(|cursor| cursor.to_string()) })
    }

    /// Applies reviewed actions of a turn.
    ///
    /// # Errors
    /// Those of [`session`](Self::session); when a review is wrong; `stale_action` when somebody else applies the same; the
    /// store's.
    pub async fn review(
        &self,
        who: &Principal,
        id: &str,
        turn: &str,
        new: NewReviews,
    ) -> Answer<ReviewReports> {
        let session = self.session(who, id, Want::Decide).await?;
        let turn = TurnId::from(turn);
        let known = self.store().captured(&session.key, Some(&turn)).await?;
        if known.is_empty() {
            return Err(Problem::not_found());
        }
        let mut reviews = BTreeMap::new();
        for (i, review) in new.actions.into_iter().enumerate() {
            let field = |name: &str| format!("actions[{i}].{name}");
            if !known.iter().any(|action| action.index == review.index) {
                return Err(Problem::field(field("index"), "the turn has no such action"));
            }
            let what = match review.decision {
                Verdict::Approve => Review::Approve {
                    amendment: review.amendment.map(|fields| Arc::new(fields.into())),
                    even_if_stale: review.even_if_stale,
                },
                Verdict::Reject if review.amendment.is_some() => {
                    let what = "cannot be given with `reject`";
                    return Err(Problem::field(field("amendment"), what));
                }
                Verdict::Reject => Review::Reject,
            };
            if reviews.insert(review.index, what).is_some() {
                return Err(Problem::field(field("index"), "is reviewed twice"));
            }
        }
        // They are done for the person of the run, whoever reviews.
        let by = who.user.clone();
        let reports = self.engine().apply_captured(&session.key, &turn, &reviews, by).await?;
        let report = |report: turnbuckle_engine::ApplyReport| ReviewReport {
            index: report.index,
            tool: report.tool,
            status: report.status.into(),
            detail: report.detail,
        };
        Ok(ReviewReports { reports: reports.into_iter().map(report).collect() })
    }

    /// Titles of tools by name.
    fn titles(&self) -> BTreeMap<String, String> {
        let agents = self.engine().domain().agents();
        let tools = agents.values().flat_map(|agent| agent.tools());
        tools
            .map(|tool| {
                let contract = tool.tool().contract();
                (contract.name().to_string(), contract.title.clone())
            })
            .collect()
    }
}

fn view(
    key: &SessionKey,
    captured: Captured,
    titles: &BTreeMap<String, String>,
) -> Answer<CapturedView> {
    let action: CapturedAction = serde::Deserialize::deserialize(&*captured.action)
        .map_err(|e| Problem::internal(&format!("a captured action cannot be read: {e}")))?;
    let title = titles.get(action.tool.as_str()).cloned();
    Ok(CapturedView {
        session: key.id.clone(),
        turn: captured.turn,
        index: captured.index,
        status: captured.status.into(),
        call: action.call,
        title: title.unwrap_or_else(|| action.tool.to_string()),
        tool: action.tool,
        args: action.args,
        predicted: action.predicted,
        digest: action.digest,
        result: captured.result,
    })
}
