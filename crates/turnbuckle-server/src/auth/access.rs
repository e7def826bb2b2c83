//! What a principal may do. Decided without I/O; the table is in `docs/http-api.md`.

use super::principal::Principal;
use crate::dto::Role;
use crate::problem::{Answer, Problem};
use turnbuckle_core::ids::UserId;

/// What somebody wants to do with a session or what belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Read it.
    Read,
    /// Talk in it, change its title, copy it, answer for the front end.
    Talk,
    /// Stop, delete or export it.
    Tend,
    /// Decide its cards and review its captured actions.
    Decide,
}

/// Whose things a list or a sum covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// One person's.
    Of(UserId),
    /// Everyone's in the tenant.
    Everyones,
}

/// Whether `who` may do this with a session of `owner` in the same tenant.
pub fn may(who: &Principal, owner: &UserId, want: Want) -> bool {
    let own = who.user == *owner && who.is(Role::User);
    own || match want {
        Want::Read => who.is(Role::Approver) || who.is(Role::Operator),
        Want::Talk => false,
        Want::Tend => who.is(Role::Operator),
        Want::Decide => who.is(Role::Approver),
    }
}

/// Whose things are meant, when `who` may see them: by default their own. `wide` is the role that sees everyone's.
///
/// # Errors
/// Not found, as for everything that is not for them.
pub fn whose(who: &Principal, wish: Option<&str>, wide: Role) -> Answer<Whose> {
    match wish {
        Some("*") if who.is(wide) => Ok(Whose::Everyones),
        Some(user) if user == who.user.as_str() => own(who),
        Some(user) if user != "*" && who.is(wide) => Ok(Whose::Of(user.into())),
        Some(_) => Err(Problem::not_found()),
        None if who.is(Role::User) => own(who),
        None if who.is(wide) => Ok(Whose::Everyones),
        None => Err(Problem::not_found()),
    }
}

fn own(who: &Principal) -> Answer<Whose> {
    if who.is(Role::User) { Ok(Whose::Of(who.user.clone())) } else { Err(Problem::not_found()) }
}

/// Refuses everyone without the role.
///
/// # Errors
/// Not found, as for everything that is not for them.
pub fn needs(who: &Principal, role: Role) -> Answer<()> {
    if who.is(role) { Ok(()) } else { Err(Problem::not_found()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dto::AuthKind;

    fn someone(user: &str, roles: &[Role]) -> Principal {
        Principal {
            roles: roles.iter().copied().collect(),
            kind: AuthKind::Key,
            ..Principal::local("acme", user)
        }
    }

    #[test]
    fn each_role_may_what_the_table_says() {
        use Role::*;
        use Want::*;
        let table: [(&[Role], &str, [bool; 4]); 6] = [
            (&[User], "ada", [true, true, true, true]),
            (&[User], "bob", [false, false, false, false]),
            (&[Approver], "bob", [true, false, false, true]),
            (&[Operator], "bob", [true, false, true, false]),
            (&[Approver], "ada", [true, false, false, true]),
            (&[Admin], "bob", [true, false, true, true]),
        ];
        for (roles, user, expected) in table {
            let who = someone(user, roles);
            let got = [Read, Talk, Tend, Decide].map(|want| may(&who, &"ada".into(), want));
            assert_eq!(got, expected, "{roles:?} {user}");
        }
    }

    #[test]
    fn lists_are_of_ones_own_unless_the_role_is_wide() {
        let (ada, everyone) = (|| Ok(Whose::Of("ada".into())), Ok(Whose::Everyones));
        let user = someone("ada", &[Role::User]);
        assert_eq!(whose(&user, None, Role::Operator), ada());
        assert_eq!(whose(&user, Some("ada"), Role::Operator), ada());
        for other in ["*", "bob"] {
            assert_eq!(whose(&user, Some(other), Role::Operator), Err(Problem::not_found()));
        }
        let operator = someone("olga", &[Role::Operator]);
        assert_eq!(whose(&operator, None, Role::Operator), everyone);
        assert_eq!(whose(&operator, Some("ada"), Role::Operator), ada());
        assert_eq!(whose(&operator, None, Role::Approver), Err(Problem::not_found()));
    }
}
