/**
 * The tables, as a list of migrations: entry n turns format n into n + 1. Entries are never edited once released. Times are
 * milliseconds since the epoch; JSON columns hold compact text; sizes are bytes.
 */

export const migrations: readonly string[] = [
  `
  CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

  CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    idempotency_key TEXT,
    tags TEXT NOT NULL,
    user_metadata TEXT NOT NULL,
    sdk_version TEXT NOT NULL,
    project_id TEXT,
    display_name TEXT,
    created_at INTEGER NOT NULL,
    finished_at INTEGER,
    finish_reason TEXT
  ) WITHOUT ROWID;
  CREATE UNIQUE INDEX sessions_idempotency ON sessions (tenant, idempotency_key) WHERE idempotency_key IS NOT NULL;
  CREATE INDEX sessions_tenant ON sessions (tenant, created_at);

  -- A model is a training run. next_seq is the first seq_id that has not been consumed
  -- (0 is its creation); executed counts the requests that
  -- have finished, and a snapshot covers the first snapshot_executed of them.
  CREATE TABLE models (
    id TEXT PRIMARY KEY,
    session_id TEXT NOT NULL REFERENCES sessions (id),
    tenant TEXT NOT NULL,
    model_seq INTEGER NOT NULL,
    base_model TEXT NOT NULL,
    lora TEXT NOT NULL,
    user_metadata TEXT,
    created_at INTEGER NOT NULL,
    last_request_at INTEGER NOT NULL,
    state TEXT NOT NULL,
    error TEXT,
    next_seq INTEGER NOT NULL DEFAULT 0,
    executed INTEGER NOT NULL DEFAULT 0,
    snapshot_files TEXT REFERENCES files (id),
    snapshot_executed INTEGER NOT NULL DEFAULT 0,
    snapshot_optimizer INTEGER NOT NULL DEFAULT 1,
    UNIQUE (session_id, model_seq)
  ) WITHOUT ROWID;
  CREATE INDEX models_tenant ON models (tenant, created_at);

  -- Immutable folders of adapter files. Rows that nothing refers to are removed together with their folder.
  CREATE TABLE files (
    id TEXT PRIMARY KEY,
    bytes INTEGER NOT NULL,
    created_at INTEGER NOT NULL
  ) WITHOUT ROWID;

  CREATE TABLE checkpoints (
    run_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    tenant TEXT NOT NULL,
    session_id TEXT NOT NULL,
    files_id TEXT NOT NULL REFERENCES files (id),
    base_model TEXT NOT NULL,
    lora TEXT NOT NULL,
    step INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    public INTEGER NOT NULL DEFAULT 0,
    user_metadata TEXT,
    PRIMARY KEY (run_id, kind, name)
  ) WITHOUT ROWID;
  CREATE INDEX checkpoints_tenant ON checkpoints (tenant, created_at);
  CREATE INDEX checkpoints_expiry ON checkpoints (expires_at) WHERE expires_at IS NOT NULL;
  CREATE INDEX checkpoints_files ON checkpoints (files_id);

  -- A sampling session: over a base model (no files), or over immutable files.
  CREATE TABLE samplers (
    id TEXT PRIMARY KEY,
    session_id TEXT NOT NULL REFERENCES sessions (id),
    tenant TEXT NOT NULL,
    sampler_seq INTEGER NOT NULL,
    base_model TEXT NOT NULL,
    model_path TEXT,
    files_id TEXT REFERENCES files (id),
    clients INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    UNIQUE (session_id, sampler_seq)
  ) WITHOUT ROWID;
  CREATE INDEX samplers_files ON samplers (files_id);

  -- Every asynchronous request. payload is kept while the request may have to run (again); result is sent to the client.
  CREATE TABLE requests (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    session_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    model_id TEXT,
    sampler_id TEXT,
    seq INTEGER,
    fingerprint TEXT NOT NULL,
    state TEXT NOT NULL,
    payload BLOB,
    payload_type TEXT NOT NULL,
    draws TEXT,
    result BLOB,
    result_type TEXT,
    position INTEGER,
    tokens INTEGER NOT NULL DEFAULT 0,
    accepted_at INTEGER NOT NULL,
    started_at INTEGER,
    finished_at INTEGER,
    retrieved_at INTEGER
  );
  CREATE UNIQUE INDEX requests_model ON requests (model_id, seq) WHERE model_id IS NOT NULL AND seq IS NOT NULL;
  CREATE UNIQUE INDEX requests_sampler ON requests (sampler_id, seq) WHERE sampler_id IS NOT NULL AND seq IS NOT NULL;
  CREATE INDEX requests_pending ON requests (state) WHERE state = 'pending';
  CREATE INDEX requests_replay ON requests (model_id, position) WHERE payload IS NOT NULL;
  CREATE INDEX requests_session ON requests (session_id);
  CREATE INDEX requests_finished ON requests (finished_at) WHERE finished_at IS NOT NULL;

  CREATE TABLE usage (
    hour INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    session_id TEXT NOT NULL,
    base_model TEXT NOT NULL,
    kind TEXT NOT NULL,
    amount INTEGER NOT NULL,
    PRIMARY KEY (hour, tenant, session_id, base_model, kind)
  ) WITHOUT ROWID;

  CREATE TABLE audit (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    event TEXT NOT NULL,
    model_id TEXT,
    tinker_path TEXT,
    purpose TEXT
  );
  CREATE INDEX audit_tenant ON audit (tenant, at);
  `,
  `
  -- Time of a session's last request, stored once a minute.
  ALTER TABLE sessions ADD COLUMN seen_at INTEGER;
  CREATE INDEX sessions_seen ON sessions (COALESCE(seen_at, created_at));

  -- The adapter files of a sample without a sampling session: kept while it is pending.
  ALTER TABLE requests ADD COLUMN files_id TEXT;
  UPDATE requests SET files_id = json_extract(draws, '$.filesId') WHERE state = 'pending' AND draws IS NOT NULL;
  CREATE INDEX requests_files ON requests (files_id) WHERE files_id IS NOT NULL AND state = 'pending';

  CREATE INDEX models_snapshot ON models (snapshot_files) WHERE snapshot_files IS NOT NULL;
  CREATE INDEX checkpoints_session ON checkpoints (session_id);

  -- Expiring results in order of expiry: a sweep reads no other rows.
  DROP INDEX requests_finished;
  CREATE INDEX requests_made ON requests (finished_at) WHERE result IS NOT NULL;
  CREATE INDEX requests_fetched ON requests (retrieved_at) WHERE result IS NOT NULL AND retrieved_at IS NOT NULL;
  CREATE INDEX requests_spent ON requests (id) WHERE result IS NULL AND payload IS NULL AND finished_at IS NOT NULL;
  `,
  `
  -- Losses that clients stored; body is their inputs and graph.
  CREATE TABLE custom_losses (
    id TEXT PRIMARY KEY,
    session_id TEXT NOT NULL REFERENCES sessions (id),
    tenant TEXT NOT NULL,
    body TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    created_at INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX custom_losses_session ON custom_losses (session_id);
  `,
  `
  -- Size of stored losses, so that they can be summed without reading the bodies.
  ALTER TABLE custom_losses ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
  UPDATE custom_losses SET bytes = LENGTH(CAST(body AS BLOB));
  DROP INDEX custom_losses_session;
  CREATE INDEX custom_losses_session ON custom_losses (session_id, bytes);
  CREATE INDEX custom_losses_tenant ON custom_losses (tenant, bytes);

  -- Number of crashes while the request was running: above a limit it fails instead of running again.
  ALTER TABLE requests ADD COLUMN starts INTEGER NOT NULL DEFAULT 0;
  `,
  `
  -- One row per optimizer step. tokens counts from the start of the run, so that rows can be deleted.
  CREATE TABLE steps (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    model_id TEXT NOT NULL,
    session_id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    step INTEGER NOT NULL,
    at INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    loss REAL,
    gradient_norm REAL,
    learning_rate REAL,
    queue_ms INTEGER NOT NULL,
    compute_ms INTEGER NOT NULL
  );
  CREATE INDEX steps_model ON steps (model_id, id);
  CREATE INDEX steps_tenant ON steps (tenant, id);
  CREATE INDEX steps_session ON steps (session_id);
  `,
  `
  -- Signed-in browsers. id is the hash of the cookie, key the fingerprint of the tenant's key at the time of the sign-in.
  CREATE TABLE sign_ins (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    expires_at INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE INDEX sign_ins_tenant ON sign_ins (tenant, expires_at);
  CREATE INDEX sign_ins_expiry ON sign_ins (expires_at);
  `,
  `
  -- Responses of OpenAI's Responses API, with the conversation that a later request continues. Both are JSON.
  CREATE TABLE responses (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    body TEXT NOT NULL,
    messages TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
  );
  CREATE INDEX responses_tenant ON responses (tenant, created_at);
  CREATE INDEX responses_expiry ON responses (expires_at);
  `,
  `
  -- The name of a run; several runs have one name if they resume each other. Rows of older releases are named at the server's start.
  ALTER TABLE models ADD COLUMN name TEXT;
  CREATE INDEX models_name ON models (tenant, name) WHERE name IS NOT NULL;
  `,
  `
  -- Traces of programs that use models (OTLP). Lists of models and tools have a line break before and after each name. The columns from
  -- started_at to answer_at summarize the spans; seen_at is the time at which the last one arrived.
  CREATE TABLE traces (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    trace_id TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER NOT NULL,
    spans INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    service TEXT,
    models TEXT NOT NULL,
    tools TEXT NOT NULL,
    error TEXT,
    prompt TEXT,
    answer TEXT,
    answer_at INTEGER,
    rating INTEGER,
    is_rated INTEGER NOT NULL DEFAULT 0,
    seen_at INTEGER NOT NULL,
    UNIQUE (tenant, trace_id)
  );
  CREATE INDEX traces_tenant ON traces (tenant, started_at, id);
  CREATE INDEX traces_oldest ON traces (tenant, is_rated, seen_at, id);
  CREATE INDEX traces_seen ON traces (seen_at);

  -- body is JSON: messages, tools, usage, tokens.
  CREATE TABLE trace_spans (
    trace INTEGER NOT NULL REFERENCES traces (id),
    span_id TEXT NOT NULL,
    parent_id TEXT,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    model TEXT,
    error TEXT,
    started_at INTEGER NOT NULL,
    ended_at INTEGER NOT NULL,
    body TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    UNIQUE (trace, span_id)
  );

  -- Ratings and edits of answers. prompt_key is equal for equal prompts.
  CREATE TABLE trace_ratings (
    trace INTEGER NOT NULL REFERENCES traces (id),
    span_id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    rating INTEGER,
    comment TEXT,
    answer TEXT,
    prompt_key TEXT NOT NULL,
    rated_at INTEGER NOT NULL,
    PRIMARY KEY (trace, span_id)
  ) WITHOUT ROWID;
  CREATE INDEX trace_ratings_prompt ON trace_ratings (tenant, prompt_key);

  -- What each tenant stores, so that an export does not sum all traces.
  CREATE TABLE trace_totals (
    tenant TEXT PRIMARY KEY,
    spans INTEGER NOT NULL,
    bytes INTEGER NOT NULL
  ) WITHOUT ROWID;
  `,
];

/** The format that this version writes. */
export const formatVersion: number = migrations.length;
