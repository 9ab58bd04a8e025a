-- A store of revision 0001 with one run and a history, as the millrace of that time wrote it. Never change this.
PRAGMA application_id = 1296649292;
PRAGMA journal_mode = WAL;
BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
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
INSERT INTO "attempt_artefacts" VALUES(1,0,'error_log','server','1860ae84f36060880439a2655e7c0869d1b69496f116d70d1cc9953f403a60fd',22);
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
INSERT INTO "attempts" VALUES(1,'study-1/0-t-a',1,'host','boot',4711,123456,'2026-05-01T12:00:00Z','2026-05-01T12:05:00Z','finished',NULL,NULL,NULL,'081794738f9d897dc563d7c5ea6295517d1814d1b5af04190ae0835bc4510447');
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
INSERT INTO "history_changes" VALUES('c1-5e41e5000001',1,'v1','v1','v1',0.9,0.891,0.909,80,'2026-05-01T12:00:00Z','candidate','','null',NULL);
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
 WITHOUT ROWID

;
INSERT INTO "history_points" VALUES(1,1,0,'v0','"build-0"','sha-0',1.0,0.99,1.01,5,0.01,1);
INSERT INTO "history_points" VALUES(1,2,0,'v1','"build-1"','sha-1',0.9,0.891,0.909,5,0.01,1);
CREATE TABLE history_recordings (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	run_id VARCHAR(128) NOT NULL, 
	at_utc VARCHAR(32) NOT NULL, 
	origin VARCHAR(16) NOT NULL, 
	CONSTRAINT uq_history_recordings_run_id_origin UNIQUE (run_id, origin)
);
INSERT INTO "history_recordings" VALUES(1,'run-0','2000-01-01T00:00:00Z','local');
INSERT INTO "history_recordings" VALUES(2,'run-1','2000-01-02T00:00:00Z','local');
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
INSERT INTO "history_series" VALUES(1,'5e41e5000001','nightly','d1ge57','server','"mysql-5.6.24"','null','{"configuration":"default","clients":8}','throughput','throughput','transactions/s','higher',0.02,2,'local');
CREATE TABLE history_states (
	id INTEGER NOT NULL, 
	"key" VARCHAR(64) NOT NULL, 
	host_id VARCHAR(128) NOT NULL, 
	facts JSON NOT NULL, 
	CONSTRAINT pk_history_states PRIMARY KEY (id), 
	CONSTRAINT uq_history_states_key UNIQUE ("key")
);
INSERT INTO "history_states" VALUES(1,'57a7e0000001','host-1','{"kernel release":"6.1","data":"nodes-1"}');
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
INSERT INTO "instances" VALUES(1,'server',0,'d0a49552e5511c934034fbba21657190fd5f91d281dfc98aee77b1746c24b642','wmf','[{"name":"innodb_flush_method","value":"O_DIRECT","layer":"wmf","optional":false,"left_out":null}]','96acb9ac8e70381bb4a1dd084247653b5daa91c3e1b4db6768c74c18439c4857','{"port":"3306"}','{}');
CREATE TABLE measurements (
	attempt_id INTEGER NOT NULL, 
	role VARCHAR(64) NOT NULL, 
	name VARCHAR(128) NOT NULL, 
	position INTEGER NOT NULL, 
	value FLOAT NOT NULL, 
	CONSTRAINT pk_measurements PRIMARY KEY (attempt_id, role, name), 
	CONSTRAINT fk_measurements_attempts FOREIGN KEY(attempt_id) REFERENCES attempts (id) ON DELETE CASCADE
);
INSERT INTO "measurements" VALUES(1,'server','load_duration_s',0,3.5);
INSERT INTO "measurements" VALUES(1,'server','rows',1,20000.0);
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
INSERT INTO "runs" VALUES('study-1','digest','study','A study','smoke','2026-05-01T12:00:00Z',7,2,0.02,'host','{"cpu":{"threads":2}}','{"millrace":"0.1.0"}','{"workload":{"name":"load-data","phases":[{"name":"load","kind":"load_data"}],"metrics":{"throughput":{"title":"rows a second","unit":"rows/s","direction":"higher","numerator":["rows"],"denominator":["load_duration_s"],"primary":true}}},"factors":[{"name":"server","levels":["a","b"],"aliases":{}}],"compare":{"factor":"server","base":"a"},"configurations":{},"parameters":{},"design":{"kind":"fixed","blocks":2}}','[experiment]
','',NULL,'46fb033c981c0b80b548c7195df52719aa90b4c84bb833112a1d174775b895b0');
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
INSERT INTO "servers" VALUES('d0a49552e5511c934034fbba21657190fd5f91d281dfc98aee77b1746c24b642','mysql-5.7.22','mysql','5.7.22','5.7.22-log','{"libc":"x"}','["port"]');
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
INSERT INTO "steps" VALUES(1,0,'start',0.0,1.25,'finished');
CREATE TABLE treatments (
	run_id VARCHAR(128) NOT NULL, 
	id VARCHAR(128) NOT NULL, 
	position INTEGER NOT NULL, 
	levels JSON NOT NULL, 
	resolved JSON NOT NULL, 
	CONSTRAINT pk_treatments PRIMARY KEY (run_id, id), 
	CONSTRAINT fk_treatments_runs FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
INSERT INTO "treatments" VALUES('study-1','t-a',0,'{"server":"a"}','{"server":"a"}');
INSERT INTO "treatments" VALUES('study-1','t-b',1,'{"server":"b"}','{"server":"b"}');
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
INSERT INTO "trials" VALUES('study-1/0-t-a','study-1','t-a',0,0,'measure');
INSERT INTO "trials" VALUES('study-1/0-t-b','study-1','t-b',0,1,'measure');
INSERT INTO "trials" VALUES('study-1/1-t-a','study-1','t-a',1,2,'measure');
INSERT INTO "trials" VALUES('study-1/1-t-b','study-1','t-b',1,3,'measure');
CREATE TABLE variable_sets (
	sha256 VARCHAR(64) NOT NULL, 
	variables JSON NOT NULL, 
	CONSTRAINT pk_variable_sets PRIMARY KEY (sha256)
);
INSERT INTO "variable_sets" VALUES('96acb9ac8e70381bb4a1dd084247653b5daa91c3e1b4db6768c74c18439c4857','{"innodb_buffer_pool_size":"134217728"}');
CREATE INDEX ix_runs_digest_host_id ON runs (digest, host_id);
CREATE INDEX ix_trials_run_id_position ON trials (run_id, position);
CREATE UNIQUE INDEX uq_attempts_finished ON attempts (trial_id) WHERE outcome = 'finished';
CREATE UNIQUE INDEX uq_attempts_open ON attempts (trial_id) WHERE outcome IS NULL;
CREATE INDEX ix_attempt_artefacts_sha256 ON attempt_artefacts (sha256);
CREATE INDEX ix_instances_variables_sha256 ON instances (variables_sha256);
CREATE INDEX ix_instances_server_sha256 ON instances (server_sha256);
CREATE INDEX ix_history_points_recording_id ON history_points (recording_id);
CREATE INDEX ix_history_changes_series_id ON history_changes (series_id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('history_recordings',2);
INSERT INTO "sqlite_sequence" VALUES('attempts',1);
COMMIT;
