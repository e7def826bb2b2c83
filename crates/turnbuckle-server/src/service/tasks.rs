//! Background tasks: what a tool started and did not wait for.

use crate::api::Api;
use crate::auth::access::Want;
use crate::auth::principal::Principal;
use crate::dto::{Page, TaskEnd, TaskState, TaskView, TasksQuery};
use crate::problem::{Answer, Problem};
use crate::request::limit;
use turnbuckle_store::{Cursor, Task, TaskKey, TaskQuery};

/// Bytes of what came of a task.
const DETAIL: usize = 64 * 1024;

impl Api {
    /// The background tasks of a session, last started first.
    ///
    /// # Errors
    /// Those of [`session`](Self::session); when the query is wrong; the store's.
    pub async fn tasks(
        &self,
        who: &Principal,
        session: &str,
        query: TasksQuery,
    ) -> Answer<Page<TaskView>> {
        let session = self.session(who, session, Want::Read).await?;
        let most = limit(query.limit, 50, 200)?;
        let after = query.cursor.map(|cursor| cursor.parse::<Cursor>()).transpose();
        let after = after.map_err(|e| Problem::field("cursor", e.to_string()))?;
        let page = TaskQuery {
            session: Some(session.key.id),
            after,
            limit: most,
            ..TaskQuery::of(who.tenant.clone())
        };
        let page = self.jobs()?.tasks(page).await?;
        let next = page.next.map(|cursor| cursor.to_string());
        Ok(Page { items: page.items.into_iter().map(view).collect(), next })
    }

    /// A task, when the principal may do this with its session.
    async fn known_task(
        &self,
        who: &Principal,
        kind: &str,
        reference: &str,
        want: Want,
    ) -> Answer<Task> {
        let key = TaskKey::new(who.tenant.clone(), kind, reference);
        let task = self.jobs()?.task(&key).await?;
        self.session(who, task.session.as_str(), want).await?;
        Ok(task)
    }

    /// One background task.
    ///
    /// # Errors
    /// Not found, whatever the reason; the store's.
    pub async fn task(&self, who: &Principal, kind: &str, reference: &str) -> Answer<TaskView> {
        self.known_task(who, kind, reference, Want::Read).await.map(view)
    }

    /// Says that a task ended. What is said later is not heard. Its session is told as soon as it is idle.
    ///
    /// # Errors
    /// Not found, whatever the reason; when a field is wrong; the store's.
    pub async fn end_task(
        &self,
        who: &Principal,
        kind: &str,
        reference: &str,
        end: TaskEnd,
    ) -> Answer<TaskView> {
        let task = self.known_task(who, kind, reference, Want::Tend).await?;
        if end.state == TaskState::Running {
            return Err(Problem::field("state", "must be completed, failed or cancelled"));
        }
        if end.detail.to_string().len() > DETAIL {
            return Err(Problem::too_large("detail", format!("must have at most {DETAIL} bytes")));
        }
        let (jobs, now) = (self.jobs()?, self.now());
        let ended = jobs.end_task(&task.key, end.state.into(), end.detail.into(), now).await?;
        Ok(view(ended.task().clone()))
    }
}

fn view(task: Task) -> TaskView {
    TaskView {
        session: task.session.to_string(),
        turn: task.turn.to_string(),
        call: task.call.to_string(),
        state: task.status.into(),
        detail: (*task.detail).clone(),
        started: task.started,
        ended: task.ended,
        notified: task.notified,
        kind: task.key.kind,
        reference: task.key.reference,
    }
}
