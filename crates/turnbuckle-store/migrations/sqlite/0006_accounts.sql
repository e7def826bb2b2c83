-- What model calls are booked to beside the person, such as the id of an API key.
ALTER TABLE usage ADD COLUMN account TEXT;
CREATE INDEX usage_by_account ON usage (tenant, account, at) WHERE account IS NOT NULL;
