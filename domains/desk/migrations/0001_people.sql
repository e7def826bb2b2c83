-- Who works at the desk, who writes to it, and who may see what.
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE members (
    id INTEGER PRIMARY KEY,
    slug TEXT NOT NULL UNIQUE COLLATE NOCASE,
    name TEXT NOT NULL COLLATE NOCASE,
    email TEXT NOT NULL UNIQUE COLLATE NOCASE,
    role TEXT NOT NULL CHECK (role IN ('owner', 'admin', 'user')),
    title TEXT NOT NULL,
    phone TEXT,
    time_zone TEXT NOT NULL,
    active INTEGER NOT NULL CHECK (active IN (0, 1)),
    created_at INTEGER NOT NULL
);
CREATE INDEX members_name ON members (name);

CREATE TABLE member_rights (
    member_id INTEGER NOT NULL REFERENCES members (id),
    right TEXT NOT NULL,
    PRIMARY KEY (member_id, right)
) WITHOUT ROWID;

CREATE TABLE groups (
    id INTEGER PRIMARY KEY,
    slug TEXT NOT NULL UNIQUE COLLATE NOCASE,
    name TEXT NOT NULL COLLATE NOCASE,
    description TEXT NOT NULL,
    visibility TEXT NOT NULL CHECK (visibility IN ('open', 'private'))
);

CREATE TABLE group_members (
    group_id INTEGER NOT NULL REFERENCES groups (id),
    member_id INTEGER NOT NULL REFERENCES members (id),
    PRIMARY KEY (group_id, member_id)
) WITHOUT ROWID;
CREATE INDEX group_members_by_member ON group_members (member_id);

CREATE TABLE companies (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE COLLATE NOCASE,
    domain TEXT NOT NULL UNIQUE COLLATE NOCASE,
    industry TEXT NOT NULL,
    city TEXT NOT NULL,
    country TEXT NOT NULL,
    phone TEXT,
    tier TEXT NOT NULL CHECK (tier IN ('standard', 'plus', 'key')),
    created_at INTEGER NOT NULL
);

CREATE TABLE contacts (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL COLLATE NOCASE,
    email TEXT NOT NULL UNIQUE COLLATE NOCASE,
    phone TEXT,
    company_id INTEGER REFERENCES companies (id),
    city TEXT NOT NULL,
    country TEXT NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE INDEX contacts_name ON contacts (name);
CREATE INDEX contacts_phone ON contacts (phone);
CREATE INDEX contacts_company ON contacts (company_id);

CREATE TABLE inboxes (
    id INTEGER PRIMARY KEY,
    slug TEXT NOT NULL UNIQUE COLLATE NOCASE,
    name TEXT NOT NULL UNIQUE COLLATE NOCASE,
    address TEXT NOT NULL UNIQUE COLLATE NOCASE,
    description TEXT NOT NULL
);

-- Exactly one of member and group; a grant to a group follows its membership.
CREATE TABLE inbox_grants (
    inbox_id INTEGER NOT NULL REFERENCES inboxes (id),
    member_id INTEGER REFERENCES members (id),
    group_id INTEGER REFERENCES groups (id),
    level TEXT NOT NULL CHECK (level IN ('read', 'write')),
    CHECK ((member_id IS NULL) <> (group_id IS NULL))
);
CREATE UNIQUE INDEX inbox_grants_member ON inbox_grants (member_id, inbox_id) WHERE member_id IS NOT NULL;
CREATE UNIQUE INDEX inbox_grants_group ON inbox_grants (group_id, inbox_id) WHERE group_id IS NOT NULL;

CREATE VIEW inbox_access AS
SELECT member_id, inbox_id, level FROM inbox_grants WHERE member_id IS NOT NULL
UNION
SELECT gm.member_id, g.inbox_id, g.level
FROM inbox_grants g JOIN group_members gm ON gm.group_id = g.group_id;
