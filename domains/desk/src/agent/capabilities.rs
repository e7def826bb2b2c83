//! The capabilities of the desk: mail on its page, the rest everywhere.

use std::collections::BTreeSet;

use turnbuckle::core::ids::ToolName;

use super::MAIL_PAGE;
use super::capability::Capability;
use super::tools::*;

/// The sentences whose tools are all there.
fn lines(left: &BTreeSet<ToolName>, lines: &[(&[&str], &str)]) -> String {
    let kept = lines.iter().filter(|(tools, _)| tools.iter().all(|tool| left.contains(*tool)));
    kept.map(|(_, line)| *line).collect::<Vec<_>>().join(" ")
}

/// All of them, in the order in which the model is offered their tools.
pub(super) fn all() -> Vec<Capability> {
    vec![directory(), mail(), tasks(), orders(), knowledge(), notes(), planning(), replies()]
}

fn directory() -> Capability {
    Capability::global("directory", "Find out who works at the desk and in which group")
        .tool(list_members())
        .tool(list_groups())
}

fn mail() -> Capability {
    Capability::on_page("mail", MAIL_PAGE, "Find, read, sort and answer mail")
        .tool(find_threads())
        .tool(get_thread())
        .tool(list_drafts())
        .tool(list_tags())
        .tool(update_thread())
        .tool(reply_to_thread())
        .tool(start_conversation())
        .prompt(|left| {
            lines(
                left,
                &[
                    (&["find_threads"], "Mail: search with as many filters as the question names, and give counts from `total`."),
                    (&["get_thread"], "Read a thread before you say what it is about."),
                    (
                        &["reply_to_thread", "search_knowledge"],
                        "Before you answer a customer, look for the public article that covers their question and keep to it.",
                    ),
                    (&["reply_to_thread"], "Answers are plain text in the customer's language, with a greeting, without promises of your own."),
                ],
            )
        })
}

fn tasks() -> Capability {
    Capability::global("tasks", "List, create and complete tasks")
        .tool(list_tasks())
        .tool(create_task())
        .tool(complete_task())
        .prompt(|left| {
            lines(
                left,
                &[(
                    &["create_task"],
                    "Tasks: a reminder is a task. Link the thread or order it is about, and assign it to the user unless they say otherwise.",
                )],
            )
        })
}

fn orders() -> Capability {
    Capability::global("orders", "Find orders and give money back")
        .tool(find_orders())
        .tool(get_order())
        .tool(refund_order())
        .prompt(|left| {
            lines(
                left,
                &[
                    (&["get_order"], "Orders: a parcel that is `shipped` is still on its way; it has arrived when it is `delivered`."),
                    (&["refund_order"], "Read an order before you refund it, and state the reason in the customer's terms."),
                ],
            )
        })
}

fn knowledge() -> Capability {
    Capability::global("knowledge", "Look things up in the knowledge base")
        .tool(search_knowledge())
        .tool(get_article())
}

fn notes() -> Capability {
    Capability::global("notes", "Read and write internal notes")
        .tool(list_notes())
        .tool(create_note())
}

fn planning() -> Capability {
    Capability::global("planning", "Make a plan and work through it")
        .tool(plan_create())
        .tool(plan_update_step())
        .prompt(|left| {
            lines(
                left,
                &[(
                    &["plan_create", "plan_update_step"],
                    "Plans: for work of three steps or more make a plan first, then say of each step when you begin it and when it is over.",
                )],
            )
        })
}

fn replies() -> Capability {
    Capability::global("replies", "Suggest what to say next").tool(suggest_replies())
}
