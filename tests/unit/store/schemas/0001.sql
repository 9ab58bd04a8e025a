-- The rows of a store of revision 0001 with one run and a history, as the millrace of that time wrote
-- them, without its tables, which the revision makes. Never change this.
PRAGMA application_id = 1296649292;
PRAGMA journal_mode = WAL;
BEGIN TRANSACTION;
INSERT INTO "attempt_artefacts" VALUES(1,0,'error_log','server','1860ae84f36060880439a2655e7c0869d1b69496f116d70d1cc9953f403a60fd',22);
INSERT INTO "attempts" VALUES(1,'study-1/0-t-a',1,'host','boot',4711,123456,'2026-05-01T12:00:00Z','2026-05-01T12:05:00Z','finished',NULL,NULL,NULL,'081794738f9d897dc563d7c5ea6295517d1814d1b5af04190ae0835bc4510447');
INSERT INTO "history_changes" VALUES('c1-5e41e5000001',1,'v1','v1','v1',0.9,0.891,0.909,80,'2026-05-01T12:00:00Z','candidate','','null',NULL);
INSERT INTO "history_points" VALUES(1,1,0,'v0','"build-0"','sha-0',1.0,0.99,1.01,5,0.01,1);
INSERT INTO "history_points" VALUES(1,2,0,'v1','"build-1"','sha-1',0.9,0.891,0.909,5,0.01,1);
INSERT INTO "history_recordings" VALUES(1,'run-0','2000-01-01T00:00:00Z','local');
INSERT INTO "history_recordings" VALUES(2,'run-1','2000-01-02T00:00:00Z','local');
INSERT INTO "history_series" VALUES(1,'5e41e5000001','nightly','d1ge57','server','"mysql-5.6.24"','null','{"configuration":"default","clients":8}','throughput','throughput','transactions/s','higher',0.02,2,'local');
INSERT INTO "history_states" VALUES(1,'57a7e0000001','host-1','{"kernel release":"6.1","data":"nodes-1"}');
INSERT INTO "instances" VALUES(1,'server',0,'d0a49552e5511c934034fbba21657190fd5f91d281dfc98aee77b1746c24b642','wmf','[{"name":"innodb_flush_method","value":"O_DIRECT","layer":"wmf","optional":false,"left_out":null}]','96acb9ac8e70381bb4a1dd084247653b5daa91c3e1b4db6768c74c18439c4857','{"port":"3306"}','{}');
INSERT INTO "measurements" VALUES(1,'server','load_duration_s',0,3.5);
INSERT INTO "measurements" VALUES(1,'server','rows',1,20000.0);
INSERT INTO "runs" VALUES('study-1','digest','study','A study','smoke','2026-05-01T12:00:00Z',7,2,0.02,'host','{"cpu":{"threads":2}}','{"millrace":"0.1.0"}','{"workload":{"name":"load-data","phases":[{"name":"load","kind":"load_data"}],"metrics":{"throughput":{"title":"rows a second","unit":"rows/s","direction":"higher","numerator":["rows"],"denominator":["load_duration_s"],"primary":true}}},"factors":[{"name":"server","levels":["a","b"],"aliases":{}}],"compare":{"factor":"server","base":"a"},"configurations":{},"parameters":{},"design":{"kind":"fixed","blocks":2}}','[experiment]
','',NULL,'46fb033c981c0b80b548c7195df52719aa90b4c84bb833112a1d174775b895b0');
INSERT INTO "servers" VALUES('d0a49552e5511c934034fbba21657190fd5f91d281dfc98aee77b1746c24b642','mysql-5.7.22','mysql','5.7.22','5.7.22-log','{"libc":"x"}','["port"]');
INSERT INTO "steps" VALUES(1,0,'start',0.0,1.25,'finished');
INSERT INTO "treatments" VALUES('study-1','t-a',0,'{"server":"a"}','{"server":"a"}');
INSERT INTO "treatments" VALUES('study-1','t-b',1,'{"server":"b"}','{"server":"b"}');
INSERT INTO "trials" VALUES('study-1/0-t-a','study-1','t-a',0,0,'measure');
INSERT INTO "trials" VALUES('study-1/0-t-b','study-1','t-b',0,1,'measure');
INSERT INTO "trials" VALUES('study-1/1-t-a','study-1','t-a',1,2,'measure');
INSERT INTO "trials" VALUES('study-1/1-t-b','study-1','t-b',1,3,'measure');
INSERT INTO "variable_sets" VALUES('96acb9ac8e70381bb4a1dd084247653b5daa91c3e1b4db6768c74c18439c4857','{"innodb_buffer_pool_size":"134217728"}');
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('history_recordings',2);
INSERT INTO "sqlite_sequence" VALUES('attempts',1);
COMMIT;
