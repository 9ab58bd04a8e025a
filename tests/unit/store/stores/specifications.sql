-- A store with a run for each purpose, as millrace wrote it before specifications were records. Never change this.
PRAGMA application_id = 1296649292;
PRAGMA journal_mode = WAL;
BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0004');
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
	CONSTRAINT fk_attempts_trials FOREIGN KEY(trial_id) REFERENCES trials (id) ON DELETE CASCADE, 
	CONSTRAINT uq_attempts_trial_id_number UNIQUE (trial_id, number)
);
INSERT INTO "attempts" VALUES(1,'first/0-t-a',1,'host','boot',4711,123456,'2026-05-01T12:00:00Z','2026-05-01T12:05:00Z','finished',NULL,NULL,NULL);
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
	CONSTRAINT fk_history_points_history_series FOREIGN KEY(series_id) REFERENCES history_series (id) ON DELETE CASCADE, 
	CONSTRAINT fk_history_points_history_recordings FOREIGN KEY(recording_id) REFERENCES history_recordings (id) ON DELETE CASCADE, 
	CONSTRAINT fk_history_points_history_states FOREIGN KEY(state_id) REFERENCES history_states (id), 
	CONSTRAINT uq_history_points_label_series_id UNIQUE (label, series_id)
)
 WITHOUT ROWID

;
CREATE TABLE history_recordings (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	run_id VARCHAR(128) NOT NULL, 
	at_utc VARCHAR(32) NOT NULL, 
	CONSTRAINT uq_history_recordings_run_id UNIQUE (run_id)
);
CREATE TABLE history_series (
	id INTEGER NOT NULL, 
	"key" VARCHAR(64) NOT NULL, 
	experiment TEXT NOT NULL, 
	digest VARCHAR(128) NOT NULL, 
	factor TEXT NOT NULL, 
	reference JSON NOT NULL, 
	candidate JSON NOT NULL, 
	held JSON NOT NULL, 
	metric TEXT NOT NULL, 
	title TEXT NOT NULL, 
	unit TEXT NOT NULL, 
	direction VARCHAR(16) NOT NULL, 
	margin FLOAT NOT NULL, 
	examined INTEGER DEFAULT '0' NOT NULL, 
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
	millrace_command TEXT NOT NULL, imported_utc VARCHAR(32), 
	CONSTRAINT pk_runs PRIMARY KEY (id)
);
INSERT INTO "runs" VALUES('first','digest','study','A study','smoke','2026-05-01T12:00:00Z',7,3,0.02,'host','{"cpu":{"threads":2}}','{"millrace":"0.1.0"}','{"workload":{"name":"load-data","phases":[{"name":"create","kind":"sql","sql":"CREATE TABLE t (a int)","by":null},{"name":"load","kind":"load_data"}],"metrics":{"throughput":{"title":"rows a second","unit":"rows/s","direction":"higher","numerator":["rows"],"denominator":["load_duration_s"],"primary":true},"p99":{"title":"99th percentile","unit":"s","direction":"lower","percentile":99,"of":"transaction","time":"response"}},"title":"Load a file","version":3,"roles":["server"],"tables":{"t":{"name":"sbtest","count":"{tables}","rows":1000,"columns":{"id":"int"}}}},"factors":[{"name":"server","levels":["a","b"],"aliases":{"b":"a"}},{"name":"tls","levels":[false],"aliases":{}}],"compare":{"factor":"server","base":"a"},"configurations":{"default":{"title":"defaults"},"mine":{"title":"mine","extends":"default","options":{"innodb_buffer_pool_size":"8M","skip_name_resolve":true}}},"parameters":{"rows":20000,"data_seed":171773,"rate":12.5,"client_cpus":"","tables":4},"published":"s1","source":"experiments/mine.toml","observers":["threads","disk"],"design":{"kind":"sequential","blocks":20,"max_time_s":60.5,"side_by_side":true},"extensions":[{"utc":"2026-05-01T12:05:00Z","command":"millrace run x.toml --blocks 3","design":{"kind":"fixed","blocks":3,"max_time_s":null,"side_by_side":true},"blocks":3}]}','[experiment]
','',NULL);
INSERT INTO "runs" VALUES('tests','digest','study','A study','smoke','2026-05-02T12:00:00Z',7,2,0.02,'host','{"cpu":{"threads":2}}','{"millrace":"0.1.0"}','{"workload":{"name":"load-data","phases":[{"name":"create","kind":"sql","sql":"CREATE TABLE t (a int)","by":null},{"name":"load","kind":"load_data"}],"metrics":{"throughput":{"title":"rows a second","unit":"rows/s","direction":"higher","numerator":["rows"],"denominator":["load_duration_s"],"primary":true},"p99":{"title":"99th percentile","unit":"s","direction":"lower","percentile":99,"of":"transaction","time":"response"}},"title":"Load a file","version":3,"roles":["server"],"tables":{"t":{"name":"sbtest","count":"{tables}","rows":1000,"columns":{"id":"int"}}}},"factors":[{"name":"server","levels":["a","b"],"aliases":{"b":"a"}},{"name":"tls","levels":[false],"aliases":{}}],"compare":{"factor":"server","base":"a"},"configurations":{"default":{"title":"defaults"},"mine":{"title":"mine","extends":"default","options":{"innodb_buffer_pool_size":"8M","skip_name_resolve":true}}},"parameters":{"rows":20000,"data_seed":171773,"rate":12.5,"client_cpus":"","tables":4},"published":"s1","source":"experiments/mine.toml","observers":["threads","disk"],"design":{"kind":"sequential","blocks":20,"max_time_s":60.5,"side_by_side":true},"tested":{"run":"first","base":"t-a","candidate":"t-b","aligned":[{"name":"binary log","treatment":"t-b"}],"left_out":["compiler: of the build"]}}','[experiment]
','',NULL);
INSERT INTO "runs" VALUES('calibrates','digest','study','A study','smoke','2026-05-03T12:00:00Z',7,2,0.02,'host','{"cpu":{"threads":2}}','{"millrace":"0.1.0"}','{"workload":{"name":"load-data","phases":[{"name":"create","kind":"sql","sql":"CREATE TABLE t (a int)","by":null},{"name":"load","kind":"load_data"}],"metrics":{"throughput":{"title":"rows a second","unit":"rows/s","direction":"higher","numerator":["rows"],"denominator":["load_duration_s"],"primary":true},"p99":{"title":"99th percentile","unit":"s","direction":"lower","percentile":99,"of":"transaction","time":"response"}},"title":"Load a file","version":3,"roles":["server"],"tables":{"t":{"name":"sbtest","count":"{tables}","rows":1000,"columns":{"id":"int"}}}},"factors":[{"name":"server","levels":["a","b"],"aliases":{"b":"a"}},{"name":"tls","levels":[false],"aliases":{}}],"compare":{"factor":"server","base":"a"},"configurations":{"default":{"title":"defaults"},"mine":{"title":"mine","extends":"default","options":{"innodb_buffer_pool_size":"8M","skip_name_resolve":true}}},"parameters":{"rows":20000,"data_seed":171773,"rate":12.5,"client_cpus":"","tables":4},"published":"s1","source":"experiments/mine.toml","observers":["threads","disk"],"design":{"kind":"sequential","blocks":20,"max_time_s":60.5,"side_by_side":true},"calibrates":{"digest":"d","name":"study","factor":"server","base":"a","blocks":10,"margin":0.02}}','[experiment]
','',NULL);
INSERT INTO "runs" VALUES('bisects','digest','study','A study','smoke','2026-05-04T12:00:00Z',7,2,0.02,'host','{"cpu":{"threads":2}}','{"millrace":"0.1.0"}','{"workload":{"name":"load-data","phases":[{"name":"create","kind":"sql","sql":"CREATE TABLE t (a int)","by":null},{"name":"load","kind":"load_data"}],"metrics":{"throughput":{"title":"rows a second","unit":"rows/s","direction":"higher","numerator":["rows"],"denominator":["load_duration_s"],"primary":true},"p99":{"title":"99th percentile","unit":"s","direction":"lower","percentile":99,"of":"transaction","time":"response"}},"title":"Load a file","version":3,"roles":["server"],"tables":{"t":{"name":"sbtest","count":"{tables}","rows":1000,"columns":{"id":"int"}}}},"factors":[{"name":"server","levels":["a","b"],"aliases":{"b":"a"}},{"name":"tls","levels":[false],"aliases":{}}],"compare":{"factor":"server","base":"a"},"configurations":{"default":{"title":"defaults"},"mine":{"title":"mine","extends":"default","options":{"innodb_buffer_pool_size":"8M","skip_name_resolve":true}}},"parameters":{"rows":20000,"data_seed":171773,"rate":12.5,"client_cpus":"","tables":4},"published":"s1","source":"experiments/mine.toml","observers":["threads","disk"],"design":{"kind":"sequential","blocks":20,"max_time_s":60.5,"side_by_side":true},"bisects":{"members":["a","b"],"workload":"updates","confidence":0.95,"margin":0.02}}','[experiment]
','',NULL);
INSERT INTO "runs" VALUES('confirms','digest','study','A study','smoke','2026-05-05T12:00:00Z',7,2,0.02,'host','{"cpu":{"threads":2}}','{"millrace":"0.1.0"}','{"workload":{"name":"load-data","phases":[{"name":"create","kind":"sql","sql":"CREATE TABLE t (a int)","by":null},{"name":"load","kind":"load_data"}],"metrics":{"throughput":{"title":"rows a second","unit":"rows/s","direction":"higher","numerator":["rows"],"denominator":["load_duration_s"],"primary":true},"p99":{"title":"99th percentile","unit":"s","direction":"lower","percentile":99,"of":"transaction","time":"response"}},"title":"Load a file","version":3,"roles":["server"],"tables":{"t":{"name":"sbtest","count":"{tables}","rows":1000,"columns":{"id":"int"}}}},"factors":[{"name":"server","levels":["a","b"],"aliases":{"b":"a"}},{"name":"tls","levels":[false],"aliases":{}}],"compare":{"factor":"server","base":"a"},"configurations":{"default":{"title":"defaults"},"mine":{"title":"mine","extends":"default","options":{"innodb_buffer_pool_size":"8M","skip_name_resolve":true}}},"parameters":{"rows":20000,"data_seed":171773,"rate":12.5,"client_cpus":"","tables":4},"published":"s1","source":"experiments/mine.toml","observers":["threads","disk"],"design":{"kind":"sequential","blocks":20,"max_time_s":60.5,"side_by_side":true},"confirms":"c0ffee"}','[experiment]
','',NULL);
INSERT INTO "runs" VALUES('oldest','digest','study','A study','smoke','2026-05-06T12:00:00Z',7,2,0.02,'host','{"cpu":{"threads":2}}','{"millrace":"0.1.0"}','{"workload":{"name":"load-data","phases":[{"name":"load","kind":"load_data"}],"metrics":{"throughput":{"title":"rows a second","unit":"rows/s","direction":"higher","numerator":["rows"],"denominator":["load_duration_s"],"primary":true}}},"factors":[{"name":"server","levels":["a","b"],"aliases":{}}],"compare":{"factor":"server","base":"a"}}','[experiment]
','',NULL);
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
INSERT INTO "treatments" VALUES('first','t-a',0,'{"server":"a","tls":false}','{"server":"a","tls":false}');
INSERT INTO "treatments" VALUES('first','t-b',1,'{"server":"b","tls":false}','{"server":"b","tls":false}');
INSERT INTO "treatments" VALUES('tests','t-a',0,'{"server":"a","tls":false}','{"server":"a","tls":false}');
INSERT INTO "treatments" VALUES('tests','t-b',1,'{"server":"b","tls":false}','{"server":"b","tls":false}');
INSERT INTO "treatments" VALUES('calibrates','t-a',0,'{"server":"a","tls":false}','{"server":"a","tls":false}');
INSERT INTO "treatments" VALUES('calibrates','t-b',1,'{"server":"b","tls":false}','{"server":"b","tls":false}');
INSERT INTO "treatments" VALUES('bisects','t-a',0,'{"server":"a","tls":false}','{"server":"a","tls":false}');
INSERT INTO "treatments" VALUES('bisects','t-b',1,'{"server":"b","tls":false}','{"server":"b","tls":false}');
INSERT INTO "treatments" VALUES('confirms','t-a',0,'{"server":"a","tls":false}','{"server":"a","tls":false}');
INSERT INTO "treatments" VALUES('confirms','t-b',1,'{"server":"b","tls":false}','{"server":"b","tls":false}');
INSERT INTO "treatments" VALUES('oldest','t-a',0,'{"server":"a","tls":false}','{"server":"a","tls":false}');
INSERT INTO "treatments" VALUES('oldest','t-b',1,'{"server":"b","tls":false}','{"server":"b","tls":false}');
CREATE TABLE trials (
	id VARCHAR(255) NOT NULL, 
	run_id VARCHAR(128) NOT NULL, 
	treatment_id VARCHAR(128) NOT NULL, 
	block INTEGER NOT NULL, 
	position INTEGER NOT NULL, purpose VARCHAR(16) DEFAULT 'measure' NOT NULL, 
	CONSTRAINT pk_trials PRIMARY KEY (id), 
	CONSTRAINT fk_trials_treatments FOREIGN KEY(run_id, treatment_id) REFERENCES treatments (run_id, id) ON DELETE CASCADE, 
	CONSTRAINT fk_trials_runs FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);
INSERT INTO "trials" VALUES('first/0-t-a','first','t-a',0,0,'measure');
INSERT INTO "trials" VALUES('first/0-t-b','first','t-b',0,1,'measure');
INSERT INTO "trials" VALUES('first/1-t-a','first','t-a',1,2,'measure');
INSERT INTO "trials" VALUES('first/1-t-b','first','t-b',1,3,'measure');
INSERT INTO "trials" VALUES('tests/0-t-a','tests','t-a',0,0,'measure');
INSERT INTO "trials" VALUES('tests/0-t-b','tests','t-b',0,1,'measure');
INSERT INTO "trials" VALUES('tests/1-t-a','tests','t-a',1,2,'measure');
INSERT INTO "trials" VALUES('tests/1-t-b','tests','t-b',1,3,'measure');
INSERT INTO "trials" VALUES('calibrates/0-t-a','calibrates','t-a',0,0,'measure');
INSERT INTO "trials" VALUES('calibrates/0-t-b','calibrates','t-b',0,1,'measure');
INSERT INTO "trials" VALUES('calibrates/1-t-a','calibrates','t-a',1,2,'measure');
INSERT INTO "trials" VALUES('calibrates/1-t-b','calibrates','t-b',1,3,'measure');
INSERT INTO "trials" VALUES('bisects/0-t-a','bisects','t-a',0,0,'measure');
INSERT INTO "trials" VALUES('bisects/0-t-b','bisects','t-b',0,1,'measure');
INSERT INTO "trials" VALUES('bisects/1-t-a','bisects','t-a',1,2,'measure');
INSERT INTO "trials" VALUES('bisects/1-t-b','bisects','t-b',1,3,'measure');
INSERT INTO "trials" VALUES('confirms/0-t-a','confirms','t-a',0,0,'measure');
INSERT INTO "trials" VALUES('confirms/0-t-b','confirms','t-b',0,1,'measure');
INSERT INTO "trials" VALUES('confirms/1-t-a','confirms','t-a',1,2,'measure');
INSERT INTO "trials" VALUES('confirms/1-t-b','confirms','t-b',1,3,'measure');
INSERT INTO "trials" VALUES('oldest/0-t-a','oldest','t-a',0,0,'measure');
INSERT INTO "trials" VALUES('oldest/0-t-b','oldest','t-b',0,1,'measure');
INSERT INTO "trials" VALUES('oldest/1-t-a','oldest','t-a',1,2,'measure');
INSERT INTO "trials" VALUES('oldest/1-t-b','oldest','t-b',1,3,'measure');
INSERT INTO "trials" VALUES('first/2-t-a','first','t-a',2,4,'measure');
INSERT INTO "trials" VALUES('first/2-t-b','first','t-b',2,5,'measure');
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
CREATE INDEX ix_instances_server_sha256 ON instances (server_sha256);
CREATE INDEX ix_instances_variables_sha256 ON instances (variables_sha256);
CREATE INDEX ix_history_points_recording_id ON history_points (recording_id);
CREATE INDEX ix_history_changes_series_id ON history_changes (series_id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('attempts',1);
COMMIT;
