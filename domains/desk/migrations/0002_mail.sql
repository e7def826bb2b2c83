-- Conversations. Addresses of messages are JSON arrays of plain e-mail addresses.
CREATE TABLE tags (
    id INTEGER PRIMARY KEY,
    slug TEXT NOT NULL UNIQUE COLLATE NOCASE,
    name TEXT NOT NULL UNIQUE COLLATE NOCASE,
    color TEXT NOT NULL,
    description TEXT NOT NULL
);

CREATE TABLE threads (
    id INTEGER PRIMARY KEY,
    subject TEXT NOT NULL COLLATE NOCASE,
    inbox_id INTEGER NOT NULL REFERENCES inboxes (id),
    status TEXT NOT NULL CHECK (status IN ('open', 'archived', 'spam', 'trash')),
    assignee_id INTEGER REFERENCES members (id),
    contact_id INTEGER REFERENCES contacts (id),
    order_id INTEGER,
    unread INTEGER NOT NULL CHECK (unread IN (0, 1)),
    message_count INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    last_message_at INTEGER NOT NULL
);
CREATE INDEX threads_recent ON threads (last_message_at);
CREATE INDEX threads_created ON threads (created_at);
CREATE INDEX threads_inbox ON threads (inbox_id, status, last_message_at);
CREATE INDEX threads_assignee ON threads (assignee_id, status, last_message_at);
CREATE INDEX threads_contact ON threads (contact_id);
CREATE INDEX threads_order ON threads (order_id);
CREATE INDEX threads_subject ON threads (subject);

CREATE TABLE thread_tags (
    thread_id INTEGER NOT NULL REFERENCES threads (id),
    tag_id INTEGER NOT NULL REFERENCES tags (id),
    PRIMARY KEY (thread_id, tag_id)
) WITHOUT ROWID;
CREATE INDEX thread_tags_by_tag ON thread_tags (tag_id);

CREATE TABLE messages (
    id INTEGER PRIMARY KEY,
    thread_id INTEGER NOT NULL REFERENCES threads (id),
    direction TEXT NOT NULL CHECK (direction IN ('inbound', 'outbound')),
    member_id INTEGER REFERENCES members (id),
    contact_id INTEGER REFERENCES contacts (id),
    from_name TEXT NOT NULL,
    from_address TEXT NOT NULL COLLATE NOCASE,
    to_addresses TEXT NOT NULL,
    cc_addresses TEXT NOT NULL,
    subject TEXT NOT NULL,
    body TEXT NOT NULL,
    sent_at INTEGER NOT NULL
);
CREATE INDEX messages_thread ON messages (thread_id, sent_at, id);
-- Holds all a search for senders reads, so that it never touches the bodies.
CREATE INDEX messages_sender ON messages (direction, from_address, from_name, thread_id);

CREATE VIRTUAL TABLE messages_text USING fts5 (
    subject, body, from_name, content = 'messages', content_rowid = 'id', prefix = '2 3'
);
CREATE TRIGGER messages_text_insert AFTER INSERT ON messages BEGIN
    INSERT INTO messages_text (rowid, subject, body, from_name)
    VALUES (new.id, new.subject, new.body, new.from_name);
END;

CREATE TABLE drafts (
    id INTEGER PRIMARY KEY,
    thread_id INTEGER REFERENCES threads (id),
    inbox_id INTEGER NOT NULL REFERENCES inboxes (id),
    author_id INTEGER NOT NULL REFERENCES members (id),
    subject TEXT NOT NULL,
    to_addresses TEXT NOT NULL,
    cc_addresses TEXT NOT NULL,
    body TEXT NOT NULL,
    updated_at INTEGER NOT NULL
);
CREATE INDEX drafts_author ON drafts (author_id, updated_at);

-- What a mail gateway would pick up. A row exists exactly when a message was sent from here.
CREATE TABLE outbox (
    id INTEGER PRIMARY KEY,
    message_id INTEGER NOT NULL UNIQUE REFERENCES messages (id),
    from_address TEXT NOT NULL,
    to_addresses TEXT NOT NULL,
    cc_addresses TEXT NOT NULL,
    subject TEXT NOT NULL,
    body TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('queued', 'delivered', 'failed')),
    queued_at INTEGER NOT NULL
);
CREATE INDEX outbox_state ON outbox (state, queued_at);
