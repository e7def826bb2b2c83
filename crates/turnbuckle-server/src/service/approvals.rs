//! Cards, and results of tools that run in the front end.

use crate::api::Api;
use crate::auth::access::{Want, needs};
use crate::auth::principal::Principal;
use crate::dto::{
    Answered, ApprovalFilter, ApprovalView, ApprovalsQuery, NewDecision, NewToolResult, Page, Role,
    Verdict,
};
use crate::problem::{Answer, Code, Problem};
use crate::request::{Caller, limit};
use serde_json::json;
use std::sync::Arc;
use turnbuckle_core::error::ToolError;
use turnbuckle_core::ids::{CallId, MessageId};
use turnbuckle_core::json::Json;
use turnbuckle_core::machine::{Decision, Input};
use turnbuckle_core::message::{Asks, CardStatus, SystemBody};
use turnbuckle_store::{Card, CardQuery, CardStanding, Cursor, Posted, Session};

/// Characters of a reason or of an error of the front end.
const REASON: usize = 4000;
/// Cards of a session that are read at once.
const CARDS: u32 = 200;

impl Api {
    /// Cards, oldest first: of the caller's sessions, for an approver of the whole tenant.
    ///
    /// # Errors
    /// When the query is wrong; the store's.
    pub async fn approvals(
        &self,
        who: &Principal,
        query: ApprovalsQuery,
    ) -> Answer<Page<ApprovalView>> {
        if !who.is(Role::Approver) {
            needs(who, Role::User)?;
        }
        let most = limit(query.limit, 50, 200)?;
        let after = query.cursor.map(|cursor| cursor.parse::<Cursor>()).transpose();
        let after = after.map_err(|e| Problem::field("cursor", e.to_string()))?;
        let session = match &query.session {
            None => None,
            Some(id) => {
                let session = self.session(who, id, Want::Read).await?;
                Some(session.key.id)
            }
        };
        let page = CardQuery {
            session,
            user: (!who.is(Role::Approver)).then(|| who.user.clone()),
            standing: match query.status.unwrap_or_default() {
                ApprovalFilter::Pending => CardStanding::Pending,
                ApprovalFilter::Decided => CardStanding::Settled,
                ApprovalFilter::All => CardStanding::Any,
            },
            after,
            limit: most,
            ..CardQuery::of(who.tenant.clone())
        };
        let page = self.store().cards(page).await?;
        Ok(Page {
            items: page.items.into_iter().filter_map(ApprovalView::of).collect(),
            next: page.next.map(|cursor| cursor.to_string()),
        })
    }

    /// One card.
    ///
    /// # Errors
    /// Not found, whatever the reason; the store's.
    pub async fn approval(&self, who: &Principal, id: &str) -> Answer<ApprovalView> {
        let (card, _) = self.card(who, &id.into(), Want::Read).await?;
        ApprovalView::of(card).ok_or_else(Problem::not_found)
    }

    async fn card(&self, who: &Principal, id: &MessageId, want: Want) -> Answer<(Card, Session)> {
        let card = self.store().card(&who.tenant, id).await?;
        let session = self.session(who, card.session.id.as_str(), want).await?;
        Ok((card, session))
    }

    /// Stores a decision about a card.
    ///
    /// # Errors
    /// Not found, whatever the reason; `already_decided`; `wrong_answer`; when a field is wrong; the store's.
    pub async fn decide(
        &self,
        who: &Principal,
        id: &str,
        new: NewDecision,
        idempotency_key: Option<String>,
    ) -> Answer<Answered> {
        let (card, session) = self.card(who, &id.into(), Want::Decide).await?;
        if new.reason.as_ref().is_some_and(|reason| reason.chars().count() > REASON) {
            let what = format!("must have at most {REASON} characters");
            return Err(Problem::too_large("reason", what));
        }
        let decision = match new.decision {
            Verdict::Approve => Decision::Approve {
                amendment: new.amendment.map(|fields| Arc::new(fields.into())),
                reason: new.reason,
                remember: new.remember,
            },
            Verdict::Reject if new.amendment.is_some() => {
                return Err(Problem::field("amendment", "cannot be given with `reject`"));
            }
            Verdict::Reject if new.remember.is_some() => {
                return Err(Problem::field("remember", "cannot be given with `reject`"));
            }
            Verdict::Reject => Decision::Reject { reason: new.reason },
        };
        let card_id = card.message.id.clone();
        let input = Posted::Decision { card: card_id, decision, by: Some(who.user.clone()) };
        self.answer(card, session, input, idempotency_key).await
    }

    /// Stores a decision about a card, and that it was made.
    ///
    /// # Errors
    /// As [`decide`](Self::decide); the audit log's.
    pub async fn decide_on_record(
        &self,
        caller: &Caller,
        id: &str,
        new: NewDecision,
        idempotency_key: Option<String>,
    ) -> Answer<Answered> {
        let action = match new.decision {
            Verdict::Approve => "approval.approve",
            Verdict::Reject => "approval.reject",
        };
        let detail = json!({
            "amendment": new.amendment, "reason": new.reason, "remember": new.remember,
        });
        let answered = self.decide(&caller.who, id, new, idempotency_key).await?;
        let (who, request) = (&caller.who, &caller.request);
        self.audit(who, request, action, id, Some(&answered.session), detail).await?;
        Ok(answered)
    }

    /// Stores the result of a tool that ran in the front end. The same result again changes nothing, by whichever way it comes.
    ///
    /// # Errors
    /// As [`decide`](Self::decide).
    pub async fn tool_result(
        &self,
        who: &Principal,
        call: &str,
        new: NewToolResult,
        idempotency_key: Option<String>,
    ) -> Answer<Answered> {
        let (first, session) = self.card(who, &CallId::from(call).card(), Want::Talk).await?;
        let card = self.last_card(first).await?;
        if awaits_approval(&card) {
            let what = "The front end has not been asked for the result yet: a person's approval comes first.";
            return Err(Problem::new(Code::WrongAnswer, what));
        }
        self.take_result(who, card, session, new, idempotency_key).await
    }

    /// Stores the result that a card asks for, as [`tool_result`](Self::tool_result) does.
    ///
    /// # Errors
    /// As [`decide`](Self::decide).
    pub(crate) async fn result_of_card(
        &self,
        who: &Principal,
        id: &MessageId,
        new: NewToolResult,
        idempotency_key: Option<String>,
    ) -> Answer<Answered> {
        let (card, session) = self.card(who, id, Want::Talk).await?;
        self.take_result(who, card, session, new, idempotency_key).await
    }

    /// The card of a call by which it was asked about last. A tool of the front end that also needs approval has one for each
    /// question, and only the last, which asks for the result, can take it.
    pub(crate) async fn last_card(&self, first: Card) -> Answer<Card> {
        let Some((call, Asks::Decision)) = question(&first) else { return Ok(first) };
        let (call, message) = (call.clone(), &first.message);
        let mut query = CardQuery {
            session: Some(first.session.id.clone()),
            after: Some(Cursor { at: message.at, id: message.id.to_string() }),
            limit: CARDS,
            ..CardQuery::of(first.session.tenant.clone())
        };
        let mut last = first;
        loop {
            let page = self.store().cards(query.clone()).await?;
            let same = |card: &Card| question(card).is_some_and(|(about, _)| *about == call);
            last = page.items.into_iter().rfind(same).unwrap_or(last);
            let asks_for_result = matches!(question(&last), Some((_, Asks::ClientResult)));
            match page.next {
                Some(next) if !asks_for_result => query.after = Some(next),
                _ => return Ok(last),
            }
        }
    }

    async fn take_result(
        &self,
        who: &Principal,
        card: Card,
        session: Session,
        new: NewToolResult,
        idempotency_key: Option<String>,
    ) -> Answer<Answered> {
        let result = match (new.output, new.error) {
            (Some(output), None) => Ok(output),
            (None, Some(error)) if error.message.chars().count() <= REASON => {
                Err(ToolError::failed(error.message))
            }
            (None, Some(_)) => {
                let what = format!("must have at most {REASON} characters");
                return Err(Problem::too_large("error.message", what));
            }
            _ => return Err(Problem::field("output", "give either `output` or `error`")),
        };
        let (card_id, by) = (card.message.id.clone(), Some(who.user.clone()));
        let input = Posted::ClientResult { card: card_id, result: result.clone(), by };
        match self.post(&session.key, input, idempotency_key).await {
            Err(problem) if problem.code == Code::AlreadyDecided => {
                match self.given(&session, &card).await? {
                    Some(given) if given == result => Ok(answered(card, session)),
                    _ => Err(problem),
                }
            }
            posted => posted.map(|_| answered(card, session)),
        }
    }

    /// The result that a front end gave, waiting or not.
    async fn given(
        &self,
        session: &Session,
        card: &Card,
    ) -> Answer<Option<Result<Json, ToolError>>> {
        // What has left the inbox by now is in the journal, which is read after it.
        let waiting = self.store().inbox(&session.key).await?.into_iter();
        let waiting = waiting.filter(|item| item.input.card() == Some(&card.message.id));
        for item in waiting {
            if let Posted::ClientResult { result, .. } = item.input {
                return Ok(Some(result));
            }
        }
        let SystemBody::Approval(body) = &card.message.body else { return Ok(None) };
        let log = self.store().journal(&session.key, &card.message.turn).await?;
        Ok(log.journal.into_iter().find_map(|entry| match entry.input {
            Input::ClientResult { call, result } if call == body.call => Some(result),
            _ => None,
        }))
    }

    async fn answer(
        &self,
        card: Card,
        session: Session,
        input: Posted,
        idempotency_key: Option<String>,
    ) -> Answer<Answered> {
        card.in_time(self.now()).map_err(Problem::from)?;
        self.post(&session.key, input, idempotency_key).await?;
        Ok(answered(card, session))
    }
}

/// Whether a card asks for a decision by which the call may still go on: the result is asked for by another card, later.
fn awaits_approval(card: &Card) -> bool {
    match &card.message.body {
        SystemBody::Approval(body) => {
            let open = matches!(body.status, CardStatus::Pending | CardStatus::Approved);
            open && body.asks == Asks::Decision
        }
        SystemBody::Note { .. } => false,
    }
}

/// What a card asks, about which call.
fn question(card: &Card) -> Option<(&CallId, Asks)> {
    match &card.message.body {
        SystemBody::Approval(body) => Some((&body.call, body.asks)),
        SystemBody::Note { .. } => None,
    }
}

fn answered(card: Card, session: Session) -> Answered {
    Answered {
        approval: card.message.id,
        session: session.key.id,
        turn: card.message.turn,
        after: session.next_seq.saturating_sub(1).to_string(),
    }
}
