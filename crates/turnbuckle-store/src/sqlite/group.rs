//! Commits that come at once share a transaction, and so wait for the disk once.
//!
//! Whoever gets the writing connection writes what the others wait to write, too. One that does not fit is taken out, and tried
//! alone when the others are stored. Should the writer be dropped half-way, nothing of the transaction stays, and each of
//! the others comes again; one whose commit was stored all the same is told so, as with any commit that is repeated.

use super::commit::{alone, beside};
use super::link::{Lent, Link, Links};
use crate::error::StoreError;
use crate::model::{Commit, Committed};
use futures_util::future::{Either, select};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

/// Commits of one transaction at the most. Those that come later wait for all of them.
const TOGETHER: usize = 64;

type Answer = Result<Committed, StoreError>;

/// Commits that wait for a writer, oldest first.
#[derive(Default)]
pub(super) struct Group {
    waiting: Mutex<Vec<Waiting>>,
}

struct Waiting {
    commit: Arc<Commit>,
    answer: oneshot::Sender<Answer>,
}

/// Writes a commit, alone or with others.
pub(super) async fn commit(writer: &Links, group: &Group, commit: Commit) -> Answer {
    let commit = Arc::new(commit);
    let mut answer = group.join(&commit);
    loop {
        let free = match select(&mut answer, pin!(writer.take())).await {
            Either::Left((Ok(told), _)) => return told,
            Either::Left((Err(_dropped), _)) => None,
            Either::Right((link, _)) => Some(link?),
        };
        let Some(link) = free else {
            answer = group.join(&commit);
            continue;
        };
        match answer.try_recv() {
            Ok(told) => return told,
            Err(TryRecvError::Closed) => answer = group.join(&commit),
            Err(TryRecvError::Empty) => {}
        }
        group.write(link).await;
    }
}

impl Group {
    fn join(&self, commit: &Arc<Commit>) -> oneshot::Receiver<Answer> {
        let (answer, told) = oneshot::channel();
        let waiting = Waiting { commit: Arc::clone(commit), answer };
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(waiting);
        told
    }

    /// The oldest that wait.
    fn some(&self) -> Vec<Waiting> {
        let mut all = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody waits for these any more.
        all.retain(|one| !one.answer.is_closed());
        let count = all.len().min(TOGETHER);
        all.drain(..count).collect()
    }

    async fn write(&self, mut link: Lent<'_>) {
        let some = self.some();
        let stored = match some.len() {
            0 | 1 => Ok(vec![None; some.len()]),
            _ => together(&mut link, &some).await,
        };
        match stored {
            Err(error) => {
                for one in some {
                    // Whoever has gone meanwhile does not want to know.
                    let _ = one.answer.send(Err(error.clone()));
                }
            }
            Ok(stored) => {
                for (one, stored) in some.into_iter().zip(stored) {
                    let told = match stored {
                        Some(committed) => Ok(committed),
                        None => alone(&mut link, &one.commit).await,
                    };
                    let _ = one.answer.send(told);
                }
            }
        }
    }
}

/// Writes them in one transaction; `None` for each that must be tried alone.
async fn together(link: &mut Link, some: &[Waiting]) -> Result<Vec<Option<Committed>>, StoreError> {
    link.begin().await?;
    let mut stored = Vec::with_capacity(some.len());
    for one in some {
        match beside(link, &one.commit).await {
            Ok(committed) => stored.push(committed),
            Err(error) => {
                return match link.finish::<()>(Err(error)).await {
                    // Each by itself learns what was wrong.
                    Ok(()) | Err(_) => Ok(vec![None; some.len()]),
                };
            }
        }
    }
    link.finish(Ok(stored)).await
}
