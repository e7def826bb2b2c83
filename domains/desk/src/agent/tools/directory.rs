//! Who works here.

use turnbuckle::core::error::ToolError;
use turnbuckle::tool;
use turnbuckle::tool::{FnTool, ToolContext};

use super::digest::{list_digest, list_summary};
use super::forgive::forgiving;
use crate::agent::members::{acting, told};
use crate::query::{GroupList, ListGroups, ListMembers, MemberList};

pub(crate) fn list_members() -> FnTool {
    forgiving(members())
        .digest(|output| list_digest(output, "items", &["name"]))
        .summary(|output| list_summary(output, "items", "members", &["name"]))
}

/// Lists the people who work at the desk, with their role, job title, e-mail address and time zone. Use it to find
/// out who somebody is, or who takes care of something.
#[tool(name = "list_members", effect = "read_only", retention = "summary")]
async fn members(args: ListMembers, ctx: ToolContext) -> Result<MemberList, ToolError> {
    let (desk, caller) = acting(&ctx).await?;
    desk.list_members(&caller, &args).await.map_err(told)
}

pub(crate) fn list_groups() -> FnTool {
    forgiving(groups())
        .digest(|output| list_digest(output, "items", &["name"]))
        .summary(|output| list_summary(output, "items", "groups", &["name"]))
}

/// Lists the groups of the desk, what each is for and who is in it.
#[tool(name = "list_groups", effect = "read_only", retention = "summary")]
async fn groups(args: ListGroups, ctx: ToolContext) -> Result<GroupList, ToolError> {
    let (desk, caller) = acting(&ctx).await?;
    desk.list_groups(&caller, &args).await.map_err(told)
}
