-- The tables of revision 0001. Never change this: stores have them.
CREATE TABLE runs (
    id VARCHAR(128) NOT NULL,
    digest VARCHAR(128) NOT NULL,
    name TEXT NOT NULL,
    title TEXT NOT NULL,
    scale TEXT NOT NULL,
    created_utc VARCHAR(32) NOT NULL,
    seed BIGINT NOT NULL,
    blocks INTEGER NOT NULL,
    margin FLOAT NOT NULL,
    host_id VARCHAR(128) NOT NULL,
    host_facts JSON NOT NULL,
    versions JSON NOT NULL,
    spec JSON NOT NULL,
    experiment_text TEXT NOT NULL,
    millrace_command TEXT NOT NULL,
    imported_utc VARCHAR(32),
    sha256 VARCHAR(64),
    CONSTRAINT pk_runs PRIMARY KEY (id)
);
CREATE INDEX ix_runs_digest_host_id ON runs (digest, host_id);
CREATE TABLE treatments (
    run_id VARCHAR(128) NOT NULL,
    id VARCHAR(128) NOT NULL,
    position INTEGER NOT NULL,
    levels JSON NOT NULL,
    resolved JSON NOT NULL,
    CONSTRAINT pk_treatments PRIMARY KEY (run_id, id),
    CONSTRAINT fk_treatments_runs FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
CREATE TABLE trials (
    id VARCHAR(255) NOT NULL,
    run_id VARCHAR(128) NOT NULL,
    treatment_id VARCHAR(128) NOT NULL,
    block INTEGER NOT NULL,
    position INTEGER NOT NULL,
    purpose VARCHAR(16) NOT NULL,
    CONSTRAINT pk_trials PRIMARY KEY (id),
    CONSTRAINT fk_trials_treatments FOREIGN KEY(run_id, treatment_id) REFERENCES treatments (run_id, id) ON DELETE CASCADE,
    CONSTRAINT fk_trials_runs FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
CREATE INDEX ix_trials_run_id_position ON trials (run_id, position);
CREATE TABLE attempts (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    trial_id VARCHAR(255) NOT NULL,
    number INTEGER NOT NULL,
    owner_host_id VARCHAR(128) NOT NULL,
    owner_boot_id VARCHAR(128) NOT NULL,
    owner_pid BIGINT NOT NULL,
    owner_started_ticks BIGINT NOT NULL,
    started_utc VARCHAR(32) NOT NULL,
    ended_utc VARCHAR(32),
    outcome VARCHAR(16),
    failed_step TEXT,
    reason TEXT,
    log_tail TEXT,
    sha256 VARCHAR(64),
    CONSTRAINT uq_attempts_trial_id_number UNIQUE (trial_id, number),
    CONSTRAINT fk_attempts_trials FOREIGN KEY(trial_id) REFERENCES trials (id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX uq_attempts_finished ON attempts (trial_id) WHERE outcome = 'finished';
CREATE UNIQUE INDEX uq_attempts_open ON attempts (trial_id) WHERE outcome IS NULL;
CREATE TABLE steps (
    attempt_id INTEGER NOT NULL,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    started_s FLOAT NOT NULL,
    duration_s FLOAT NOT NULL,
    outcome VARCHAR(16) NOT NULL,
    CONSTRAINT pk_steps PRIMARY KEY (attempt_id, position),
    CONSTRAINT fk_steps_attempts FOREIGN KEY(attempt_id) REFERENCES attempts (id) ON DELETE CASCADE
);
CREATE TABLE measurements (
    attempt_id INTEGER NOT NULL,
    role VARCHAR(64) NOT NULL,
    name VARCHAR(128) NOT NULL,
    position INTEGER NOT NULL,
    value FLOAT NOT NULL,
    CONSTRAINT pk_measurements PRIMARY KEY (attempt_id, role, name),
    CONSTRAINT fk_measurements_attempts FOREIGN KEY(attempt_id) REFERENCES attempts (id) ON DELETE CASCADE
);
CREATE TABLE attempt_artefacts (
    attempt_id INTEGER NOT NULL,
    position INTEGER NOT NULL,
    kind TEXT NOT NULL,
    role VARCHAR(64) NOT NULL,
    sha256 VARCHAR(64) NOT NULL,
    size_bytes BIGINT NOT NULL,
    CONSTRAINT pk_attempt_artefacts PRIMARY KEY (attempt_id, position),
    CONSTRAINT fk_attempt_artefacts_attempts FOREIGN KEY(attempt_id) REFERENCES attempts (id) ON DELETE CASCADE
);
CREATE INDEX ix_attempt_artefacts_sha256 ON attempt_artefacts (sha256);
CREATE TABLE servers (
    sha256 VARCHAR(64) NOT NULL,
    name TEXT NOT NULL,
    family TEXT NOT NULL,
    version TEXT NOT NULL,
    version_reported TEXT NOT NULL,
    build JSON NOT NULL,
    host_variables JSON NOT NULL,
    CONSTRAINT pk_servers PRIMARY KEY (sha256)
);
CREATE TABLE variable_sets (
    sha256 VARCHAR(64) NOT NULL,
    variables JSON NOT NULL,
    CONSTRAINT pk_variable_sets PRIMARY KEY (sha256)
);
CREATE TABLE instances (
    attempt_id INTEGER NOT NULL,
    role VARCHAR(64) NOT NULL,
    position INTEGER NOT NULL,
    server_sha256 VARCHAR(64) NOT NULL,
    configuration TEXT NOT NULL,
    options JSON NOT NULL,
    variables_sha256 VARCHAR(64) NOT NULL,
    own_variables JSON NOT NULL,
    facts JSON NOT NULL,
    CONSTRAINT pk_instances PRIMARY KEY (attempt_id, role),
    CONSTRAINT fk_instances_attempts FOREIGN KEY(attempt_id) REFERENCES attempts (id) ON DELETE CASCADE,
    CONSTRAINT fk_instances_servers FOREIGN KEY(server_sha256) REFERENCES servers (sha256),
    CONSTRAINT fk_instances_variable_sets FOREIGN KEY(variables_sha256) REFERENCES variable_sets (sha256)
);
CREATE INDEX ix_instances_server_sha256 ON instances (server_sha256);
CREATE INDEX ix_instances_variables_sha256 ON instances (variables_sha256);
CREATE TABLE history_series (
    id INTEGER NOT NULL,
    "key" VARCHAR(64) NOT NULL,
    experiment TEXT NOT NULL,
    digest VARCHAR(128) NOT NULL,
    factor TEXT NOT NULL,
    reference JSON NOT NULL,
    candidate JSON NOT NULL,
    fixed_factors JSON NOT NULL,
    metric TEXT NOT NULL,
    title TEXT NOT NULL,
    unit TEXT NOT NULL,
    direction VARCHAR(16) NOT NULL,
    margin FLOAT NOT NULL,
    examined INTEGER DEFAULT '0' NOT NULL,
    origin VARCHAR(16) NOT NULL,
    CONSTRAINT pk_history_series PRIMARY KEY (id),
    CONSTRAINT uq_history_series_key UNIQUE ("key")
);
CREATE TABLE history_states (
    id INTEGER NOT NULL,
    "key" VARCHAR(64) NOT NULL,
    host_id VARCHAR(128) NOT NULL,
    facts JSON NOT NULL,
    CONSTRAINT pk_history_states PRIMARY KEY (id),
    CONSTRAINT uq_history_states_key UNIQUE ("key")
);
CREATE TABLE history_recordings (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    run_id VARCHAR(128) NOT NULL,
    at_utc VARCHAR(32) NOT NULL,
    origin VARCHAR(16) NOT NULL,
    CONSTRAINT uq_history_recordings_run_id_origin UNIQUE (run_id, origin)
);
CREATE TABLE history_points (
    series_id INTEGER NOT NULL,
    recording_id INTEGER NOT NULL,
    place INTEGER NOT NULL,
    label VARCHAR(255) NOT NULL,
    level JSON NOT NULL,
    build VARCHAR(64),
    ratio FLOAT NOT NULL,
    low FLOAT,
    high FLOAT,
    n_blocks INTEGER NOT NULL,
    log_sd FLOAT,
    state_id INTEGER NOT NULL,
    CONSTRAINT pk_history_points PRIMARY KEY (series_id, recording_id, place),
    CONSTRAINT uq_history_points_label_series_id UNIQUE (label, series_id),
    CONSTRAINT fk_history_points_history_series FOREIGN KEY(series_id) REFERENCES history_series (id) ON DELETE CASCADE,
    CONSTRAINT fk_history_points_history_recordings FOREIGN KEY(recording_id) REFERENCES history_recordings (id) ON DELETE CASCADE,
    CONSTRAINT fk_history_points_history_states FOREIGN KEY(state_id) REFERENCES history_states (id)
)
 WITHOUT ROWID;
CREATE INDEX ix_history_points_recording_id ON history_points (recording_id);
CREATE TABLE history_changes (
    id VARCHAR(64) NOT NULL,
    series_id INTEGER NOT NULL,
    label VARCHAR(255) NOT NULL,
    earliest VARCHAR(255) NOT NULL,
    latest VARCHAR(255) NOT NULL,
    ratio FLOAT NOT NULL,
    low FLOAT NOT NULL,
    high FLOAT NOT NULL,
    n_points INTEGER NOT NULL,
    found_utc VARCHAR(32) NOT NULL,
    state VARCHAR(16) NOT NULL,
    reason TEXT NOT NULL,
    remeasured JSON NOT NULL,
    note TEXT,
    CONSTRAINT pk_history_changes PRIMARY KEY (id),
    CONSTRAINT fk_history_changes_history_series FOREIGN KEY(series_id) REFERENCES history_series (id) ON DELETE CASCADE
);
CREATE INDEX ix_history_changes_series_id ON history_changes (series_id);
