BEGIN TRANSACTION;
CREATE TABLE action_log (
	seq INTEGER NOT NULL,
	at TEXT NOT NULL,
	partner TEXT,
	event TEXT,
	rule TEXT,
	episode INTEGER,
	write INTEGER,
	attempt INTEGER,
	action TEXT,
	kind TEXT NOT NULL,
	reason TEXT,
	why TEXT NOT NULL,
	request TEXT,
	"before" TEXT,
	response TEXT,
	evidence TEXT,
	facts TEXT,
	"by" TEXT NOT NULL,
	prev TEXT NOT NULL,
	hash TEXT NOT NULL,
	PRIMARY KEY (seq)
);
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL,
	PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0007');
CREATE TABLE attempts (
	write INTEGER NOT NULL,
	attempt INTEGER NOT NULL,
	at TEXT NOT NULL,
	partner TEXT NOT NULL,
	event TEXT NOT NULL,
	rule TEXT NOT NULL,
	episode INTEGER NOT NULL,
	stops BOOLEAN NOT NULL,
	spends BOOLEAN NOT NULL,
	amount FLOAT,
	outcome TEXT NOT NULL,
	task_reads INTEGER DEFAULT '0' NOT NULL,
	PRIMARY KEY (write, attempt)
)
 WITHOUT ROWID;
CREATE TABLE daemon_status (
	id INTEGER NOT NULL CONSTRAINT one_row CHECK (id = 1),
	pid INTEGER NOT NULL,
	since TEXT NOT NULL,
	seen_at TEXT NOT NULL,
	body TEXT NOT NULL,
	PRIMARY KEY (id)
);
CREATE TABLE halts (
	id INTEGER NOT NULL,
	partner TEXT,
	rule TEXT,
	until TEXT,
	because TEXT NOT NULL,
	"by" TEXT NOT NULL,
	at TEXT NOT NULL,
	resumed_at TEXT,
	PRIMARY KEY (id)
);
CREATE TABLE meta (
	id INTEGER NOT NULL CONSTRAINT one_row CHECK (id = 1),
	ledger_id TEXT NOT NULL,
	created_at TEXT NOT NULL,
	restored_at TEXT,
	PRIMARY KEY (id)
);
CREATE TABLE observations (
	id INTEGER NOT NULL,
	partner TEXT NOT NULL,
	event TEXT NOT NULL,
	fact TEXT NOT NULL,
	at TEXT NOT NULL,
	"before" TEXT,
	PRIMARY KEY (id)
);
CREATE TABLE observed (
	partner TEXT NOT NULL,
	event TEXT NOT NULL,
	fact TEXT NOT NULL,
	params TEXT NOT NULL,
	at TEXT NOT NULL,
	body TEXT NOT NULL,
	looked_at TEXT, title TEXT,
	PRIMARY KEY (partner, event, fact)
)
 WITHOUT ROWID;
CREATE TABLE partners (
	partner TEXT NOT NULL, 
	seq INTEGER DEFAULT '0' NOT NULL, 
	hash TEXT DEFAULT '' NOT NULL, 
	body TEXT, 
	PRIMARY KEY (partner)
);
INSERT INTO "partners" VALUES('partner-id-one',0,'','{"partner":"partner-id-one","listed_at":"2026-03-01T12:00:49.903702Z","after_gap_at":null,"reset_at":null,"restored_at":null,"denied_at":null,"denied_until":null,"gone":{},"returned":{}}');
INSERT INTO "partners" VALUES('',36,'4d816c37d7a667768a368b7e421394173b060f2cc4171698a3939c27020608ff',NULL);
CREATE TABLE rule_memory (
	partner TEXT NOT NULL,
	event TEXT NOT NULL,
	rule TEXT NOT NULL,
	episode INTEGER NOT NULL,
	body TEXT NOT NULL,
	PRIMARY KEY (partner, event, rule)
);
CREATE TABLE writes (
	id INTEGER NOT NULL,
	partner TEXT NOT NULL,
	event TEXT NOT NULL,
	rule TEXT NOT NULL,
	episode INTEGER NOT NULL,
	position INTEGER NOT NULL,
	item TEXT NOT NULL,
	action TEXT NOT NULL,
	target TEXT NOT NULL,
	wish TEXT NOT NULL,
	wanted TEXT NOT NULL,
	params TEXT NOT NULL,
	"order" INTEGER NOT NULL,
	spends BOOLEAN NOT NULL,
	stops BOOLEAN NOT NULL,
	do_hash TEXT NOT NULL,
	context TEXT NOT NULL,
	state TEXT NOT NULL,
	reason TEXT NOT NULL,
	why TEXT NOT NULL,
	rules TEXT NOT NULL,
	attempt INTEGER NOT NULL,
	uncounted INTEGER NOT NULL,
	planned_at TEXT NOT NULL,
	changed_at TEXT NOT NULL,
	due_since TEXT DEFAULT '' NOT NULL,
	first_sent_at TEXT,
	last_sent_at TEXT,
	unknown_since TEXT,
	held_by TEXT,
	held_until TEXT,
	confirmed_by TEXT,
	"before" TEXT,
	before_known BOOLEAN NOT NULL,
	approved BOOLEAN NOT NULL,
	extra_attempts INTEGER NOT NULL,
	denied INTEGER NOT NULL,
	absent_proved BOOLEAN NOT NULL,
	changed_seq INTEGER DEFAULT '0' NOT NULL,
	sent_seq INTEGER DEFAULT '0' NOT NULL,
	PRIMARY KEY (id),
	CONSTRAINT natural_key UNIQUE (partner, event, rule, episode, position, item)
);
CREATE INDEX ix_action_log_event ON action_log (partner, event);
CREATE INDEX ix_action_log_fired ON action_log (partner, at) WHERE kind = 'fired';
CREATE INDEX ix_action_log_write ON action_log (write);
CREATE INDEX ix_attempts_money ON attempts (partner, at) WHERE amount IS NOT NULL;
CREATE INDEX ix_attempts_money_event ON attempts (partner, event, at) WHERE amount IS NOT NULL;
CREATE INDEX ix_attempts_partner ON attempts (partner, stops, at);
CREATE INDEX ix_observations_at ON observations (partner, at);
CREATE INDEX ix_writes_open ON writes (state, partner);
CREATE INDEX ix_writes_target ON writes (partner, event, target);
COMMIT;
