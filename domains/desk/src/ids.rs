//! Ids and the forgiving grammar in which they may be written.
//!
//! A row is known outside as `slug:number`, such as `thread:123`. On the way in the same row may
//! be written as `123`, `#123`, `threads:123`, `thread:thread:123` or `desk://thread/123`; what is
//! none of these is a name and goes to the resolver.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The kinds of things that have ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Someone who works at the desk.
    Member,
    /// A set of members.
    Group,
    /// Someone who writes to the desk.
    Contact,
    /// A company contacts belong to.
    Company,
    /// A shared mail address.
    Inbox,
    /// A label on threads.
    Tag,
    /// A conversation.
    Thread,
    /// One mail of a thread.
    Message,
    /// A mail not yet sent.
    Draft,
    /// Something to do.
    Task,
    /// A remark on a record.
    Note,
    /// A purchase.
    Order,
    /// Money given back on an order.
    Refund,
    /// A page of the knowledge base.
    Article,
}

impl Kind {
    const ALL: [Self; 14] = [
        Self::Member,
        Self::Group,
        Self::Contact,
        Self::Company,
        Self::Inbox,
        Self::Tag,
        Self::Thread,
        Self::Message,
        Self::Draft,
        Self::Task,
        Self::Note,
        Self::Order,
        Self::Refund,
        Self::Article,
    ];

    /// The word before the colon of an id.
    pub const fn slug(self) -> &'static str {
        match self {
            Self::Member => "member",
            Self::Group => "group",
            Self::Contact => "contact",
            Self::Company => "company",
            Self::Inbox => "inbox",
            Self::Tag => "tag",
            Self::Thread => "thread",
            Self::Message => "message",
            Self::Draft => "draft",
            Self::Task => "task",
            Self::Note => "note",
            Self::Order => "order",
            Self::Refund => "refund",
            Self::Article => "article",
        }
    }

    const fn plural(self) -> &'static str {
        match self {
            Self::Member => "members",
            Self::Group => "groups",
            Self::Contact => "contacts",
            Self::Company => "companies",
            Self::Inbox => "inboxes",
            Self::Tag => "tags",
            Self::Thread => "threads",
            Self::Message => "messages",
            Self::Draft => "drafts",
            Self::Task => "tasks",
            Self::Note => "notes",
            Self::Order => "orders",
            Self::Refund => "refunds",
            Self::Article => "articles",
        }
    }

    /// The kind a slug, its plural or its definition id (`def_thread`) names.
    pub fn from_word(word: &str) -> Option<Self> {
        let word = word.trim().to_ascii_lowercase();
        let word = word.strip_prefix("def_").unwrap_or(&word);
        match word {
            "user" | "users" => Some(Self::Member),
            _ => Self::ALL.into_iter().find(|kind| word == kind.slug() || word == kind.plural()),
        }
    }
}

/// A reference as written, before anything is looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// A row number, with the kind where one was written.
    Number {
        /// The kind that was written before the number.
        kind: Option<Kind>,
        /// The row.
        id: i64,
    },
    /// A name, e-mail or slug, with the kind where one was written.
    Name {
        /// The kind that was written before the name.
        kind: Option<Kind>,
        /// The name, trimmed.
        name: String,
    },
}

impl Reference {
    /// Reads any of the written forms; `None` when there is nothing but space.
    pub fn parse(text: &str) -> Option<Self> {
        let mut rest = text.trim();
        let mut kind = None;
        if let Some(path) = rest.strip_prefix("desk://") {
            let (word, tail) = path.split_once('/')?;
            // A `record` link carries its kind in the tail: desk://record/contact:5.
            kind = Kind::from_word(word);
            rest = tail;
        }
        while let Some((word, tail)) = rest.split_once(':') {
            match Kind::from_word(word) {
                Some(found) => {
                    kind = Some(found);
                    rest = tail.trim();
                }
                None => break,
            }
        }
        let rest = rest.trim();
        if rest.is_empty() {
            return None;
        }
        let digits = rest.strip_prefix('#').unwrap_or(rest);
        if !digits.is_empty()
            && digits.bytes().all(|byte| byte.is_ascii_digit())
            && let Ok(id) = digits.parse()
        {
            return Some(Self::Number { kind, id });
        }
        Some(Self::Name { kind, name: rest.to_owned() })
    }

    /// The kind that was written, if one was.
    pub fn kind(&self) -> Option<Kind> {
        match self {
            Self::Number { kind, .. } | Self::Name { kind, .. } => *kind,
        }
    }
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident => $kind:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub i64);

        impl $name {
            /// What kind of thing this is the id of.
            pub const KIND: Kind = Kind::$kind;
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}:{}", Kind::$kind.slug(), self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                match Reference::parse(&text) {
                    Some(Reference::Number { kind: Some(Kind::$kind) | None, id }) => Ok(Self(id)),
                    _ => Err(de::Error::custom(format!("{text:?} is no {} id", Kind::$kind.slug()))),
                }
            }
        }
    )*};
}

ids! {
    /// The id of a member.
    MemberId => Member,
    /// The id of a group.
    GroupId => Group,
    /// The id of a contact.
    ContactId => Contact,
    /// The id of a company.
    CompanyId => Company,
    /// The id of an inbox.
    InboxId => Inbox,
    /// The id of a tag.
    TagId => Tag,
    /// The id of a thread.
    ThreadId => Thread,
    /// The id of a message.
    MessageId => Message,
    /// The id of a draft.
    DraftId => Draft,
    /// The id of a task.
    TaskId => Task,
    /// The id of an order.
    OrderId => Order,
    /// The id of a refund.
    RefundId => Refund,
    /// The id of an article.
    ArticleId => Article,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_written_form_of_an_id_reads_alike() {
        let expected = Some(Reference::Number { kind: Some(Kind::Thread), id: 123 });
        for text in [
            "thread:123",
            " Threads:123 ",
            "thread:thread:123",
            "def_thread:123",
            "desk://thread/123",
            "desk://record/thread:123",
            "thread:#123",
        ] {
            assert_eq!(Reference::parse(text), expected, "{text}");
        }
        assert_eq!(Reference::parse("#123"), Some(Reference::Number { kind: None, id: 123 }));
    }

    #[test]
    fn what_is_no_id_is_a_name() {
        let name = |kind, name: &str| Some(Reference::Name { kind, name: name.to_owned() });
        assert_eq!(Reference::parse("Re: order 5"), name(None, "Re: order 5"));
        assert_eq!(Reference::parse("tag:urgent"), name(Some(Kind::Tag), "urgent"));
        assert_eq!(Reference::parse("99999999999999999999"), name(None, "99999999999999999999"));
        assert_eq!(Reference::parse("thread:"), None);
        assert_eq!(Reference::parse("  "), None);
    }

    #[test]
    fn ids_survive_json() {
        let json = serde_json::to_string(&ThreadId(7)).unwrap();
        assert_eq!(json, r#""thread:7""#);
        assert_eq!(serde_json::from_str::<ThreadId>(&json).unwrap(), ThreadId(7));
        assert!(serde_json::from_str::<ThreadId>(r#""task:7""#).is_err());
    }
}
