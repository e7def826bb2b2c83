-- Orders, the work around them, and knowledge. Money is in cents.
CREATE TABLE products (
    sku TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE COLLATE NOCASE,
    category TEXT NOT NULL,
    unit_cents INTEGER NOT NULL CHECK (unit_cents > 0)
);

CREATE TABLE orders (
    id INTEGER PRIMARY KEY,
    number TEXT NOT NULL UNIQUE COLLATE NOCASE,
    contact_id INTEGER NOT NULL REFERENCES contacts (id),
    company_id INTEGER REFERENCES companies (id),
    status TEXT NOT NULL CHECK (status IN ('pending', 'paid', 'shipped', 'delivered', 'cancelled')),
    currency TEXT NOT NULL,
    total_cents INTEGER NOT NULL CHECK (total_cents > 0),
    refunded_cents INTEGER NOT NULL DEFAULT 0 CHECK (refunded_cents BETWEEN 0 AND total_cents),
    carrier TEXT,
    tracking_number TEXT COLLATE NOCASE,
    placed_at INTEGER NOT NULL,
    shipped_at INTEGER,
    delivered_at INTEGER
);
CREATE INDEX orders_contact ON orders (contact_id, placed_at);
CREATE INDEX orders_company ON orders (company_id, placed_at);
CREATE INDEX orders_status ON orders (status, placed_at);
CREATE INDEX orders_placed ON orders (placed_at);
CREATE INDEX orders_tracking ON orders (tracking_number);

CREATE TABLE order_lines (
    order_id INTEGER NOT NULL REFERENCES orders (id),
    position INTEGER NOT NULL,
    sku TEXT NOT NULL REFERENCES products (sku),
    name TEXT NOT NULL,
    quantity INTEGER NOT NULL CHECK (quantity > 0),
    unit_cents INTEGER NOT NULL,
    PRIMARY KEY (order_id, position)
) WITHOUT ROWID;

CREATE TABLE refunds (
    id INTEGER PRIMARY KEY,
    order_id INTEGER NOT NULL REFERENCES orders (id),
    member_id INTEGER NOT NULL REFERENCES members (id),
    amount_cents INTEGER NOT NULL CHECK (amount_cents > 0),
    reason TEXT NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE INDEX refunds_order ON refunds (order_id);

CREATE TABLE tasks (
    id INTEGER PRIMARY KEY,
    title TEXT NOT NULL COLLATE NOCASE,
    description TEXT NOT NULL,
    priority TEXT NOT NULL CHECK (priority IN ('low', 'normal', 'high', 'urgent')),
    deadline INTEGER,
    created_by INTEGER NOT NULL REFERENCES members (id),
    created_at INTEGER NOT NULL,
    completed_by INTEGER REFERENCES members (id),
    completed_at INTEGER
);
CREATE INDEX tasks_open ON tasks (completed_at, deadline);
CREATE INDEX tasks_creator ON tasks (created_by);

CREATE TABLE task_assignees (
    task_id INTEGER NOT NULL REFERENCES tasks (id),
    member_id INTEGER NOT NULL REFERENCES members (id),
    PRIMARY KEY (task_id, member_id)
) WITHOUT ROWID;
CREATE INDEX task_assignees_by_member ON task_assignees (member_id);

CREATE TABLE task_links (
    task_id INTEGER NOT NULL REFERENCES tasks (id),
    kind TEXT NOT NULL CHECK (kind IN ('thread', 'order', 'contact', 'company')),
    target_id INTEGER NOT NULL,
    PRIMARY KEY (task_id, kind, target_id)
) WITHOUT ROWID;
CREATE INDEX task_links_target ON task_links (kind, target_id);

CREATE TABLE notes (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('thread', 'order', 'contact', 'company')),
    target_id INTEGER NOT NULL,
    author_id INTEGER NOT NULL REFERENCES members (id),
    body TEXT NOT NULL,
    created_at INTEGER NOT NULL
);
CREATE INDEX notes_target ON notes (kind, target_id, created_at);

CREATE TABLE articles (
    id INTEGER PRIMARY KEY,
    slug TEXT NOT NULL UNIQUE COLLATE NOCASE,
    title TEXT NOT NULL UNIQUE COLLATE NOCASE,
    category TEXT NOT NULL COLLATE NOCASE,
    audience TEXT NOT NULL CHECK (audience IN ('public', 'internal')),
    body TEXT NOT NULL,
    updated_at INTEGER NOT NULL
);
CREATE INDEX articles_category ON articles (category);

CREATE VIRTUAL TABLE articles_text USING fts5 (
    title, category, body, content = 'articles', content_rowid = 'id', tokenize = 'porter unicode61'
);
CREATE TRIGGER articles_text_insert AFTER INSERT ON articles BEGIN
    INSERT INTO articles_text (rowid, title, category, body)
    VALUES (new.id, new.title, new.category, new.body);
END;

-- Who changed what, one row per change.
CREATE TABLE activity (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    target_id INTEGER NOT NULL,
    member_id INTEGER NOT NULL REFERENCES members (id),
    action TEXT NOT NULL,
    detail TEXT NOT NULL,
    at INTEGER NOT NULL
);
CREATE INDEX activity_target ON activity (kind, target_id, at);

-- The first result of every write that named a key, so that a repeat writes nothing.
CREATE TABLE idempotency (
    member_id INTEGER NOT NULL REFERENCES members (id),
    key TEXT NOT NULL,
    action TEXT NOT NULL,
    result TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (member_id, key)
) WITHOUT ROWID;
