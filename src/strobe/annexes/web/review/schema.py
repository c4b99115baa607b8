"""The tables: one schema for SQLite and PostgreSQL, with numbered migrations from the first version on."""

from collections.abc import Mapping

from sqlalchemy import Connection

from strobe.core.errors import StrobeError

MIGRATIONS: Mapping[int, tuple[str, ...]] = {
    1: (
        "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
        """CREATE TABLE annotators (
            name TEXT PRIMARY KEY, role TEXT NOT NULL, paused INTEGER NOT NULL DEFAULT 0, created_at TEXT NOT NULL)""",
        "CREATE TABLE access_keys (hash TEXT PRIMARY KEY, name TEXT NOT NULL, created_at TEXT NOT NULL)",
        """CREATE TABLE sessions (
            hash TEXT PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, created_at TEXT NOT NULL)""",
        """CREATE TABLE tasks (
            task_id TEXT PRIMARY KEY, kind TEXT NOT NULL, position INTEGER NOT NULL, set_id TEXT NOT NULL,
            frame_id TEXT NOT NULL, votes INTEGER NOT NULL DEFAULT 0, flags INTEGER NOT NULL DEFAULT 0,
            voters INTEGER NOT NULL DEFAULT 0, bads INTEGER NOT NULL DEFAULT 0, held INTEGER NOT NULL DEFAULT 0,
            open1 INTEGER NOT NULL DEFAULT 0, open2 INTEGER NOT NULL DEFAULT 0)""",
        "CREATE INDEX tasks_round_one ON tasks (kind, open1, position)",
        "CREATE INDEX tasks_round_two ON tasks (open2, position)",
        "CREATE INDEX tasks_of_pair ON tasks (set_id, frame_id)",
        """CREATE TABLE verdicts (
            seq {serial}, verdict_id TEXT NOT NULL UNIQUE, annotator TEXT NOT NULL, at TEXT NOT NULL,
            stage TEXT NOT NULL, set_id TEXT NOT NULL, frame_id TEXT NOT NULL, task_id TEXT NOT NULL,
            decision TEXT NOT NULL, label_right INTEGER, reason TEXT NOT NULL, bad_anchor INTEGER NOT NULL,
            labels TEXT NOT NULL, note TEXT NOT NULL, seconds DOUBLE PRECISION, page_version TEXT NOT NULL)""",
        "CREATE INDEX verdicts_of_annotator ON verdicts (annotator, seq)",
        "CREATE INDEX verdicts_by_time ON verdicts (at)",
        "CREATE INDEX verdicts_of_task ON verdicts (task_id)",
        """CREATE TABLE latest (
            task_id TEXT NOT NULL, annotator TEXT NOT NULL, round INTEGER NOT NULL, at TEXT NOT NULL,
            verdict_id TEXT NOT NULL, clean INTEGER NOT NULL, bad INTEGER NOT NULL,
            PRIMARY KEY (task_id, annotator, round))""",
        "CREATE INDEX latest_of_annotator ON latest (annotator, round)",
        """CREATE TABLE leases (
            task_id TEXT NOT NULL, annotator TEXT NOT NULL, tab TEXT NOT NULL, expires DOUBLE PRECISION NOT NULL,
            PRIMARY KEY (task_id, annotator))""",
        "CREATE INDEX leases_of_annotator ON leases (annotator, expires)",
    ),
    # From this version on, the server seals sessions and keys. Earlier sessions and keys cannot be verified.
    2: (
        "DELETE FROM sessions",
        "DELETE FROM access_keys",
        "ALTER TABLE sessions ADD COLUMN seen_at TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE sessions ADD COLUMN seal TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE access_keys ADD COLUMN seal TEXT NOT NULL DEFAULT ''",
    ),
    # Three questions in one store. A task belongs to one question, and each question has its own table of answers, so
    # that no answer is counted for another question. Earlier rows are about pairs.
    3: (
        "ALTER TABLE tasks ADD COLUMN question TEXT NOT NULL DEFAULT 'pairs'",
        "ALTER TABLE tasks ADD COLUMN kin TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE tasks ADD COLUMN condition TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE latest ADD COLUMN kin TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE leases ADD COLUMN kin TEXT NOT NULL DEFAULT ''",
        "DROP INDEX tasks_round_one",
        "DROP INDEX tasks_round_two",
        "DROP INDEX tasks_of_pair",
        "CREATE INDEX tasks_round_one ON tasks (question, kind, open1, position)",
        "CREATE INDEX tasks_round_two ON tasks (question, open2, position)",
        "CREATE INDEX tasks_of_pair ON tasks (question, set_id, frame_id)",
        "CREATE INDEX tasks_of_picture ON tasks (question, frame_id)",
        "CREATE INDEX tasks_of_kin ON tasks (question, kind, open1, kin)",
        "CREATE INDEX tasks_of_condition ON tasks (question, kind, open1, condition, position)",
        "CREATE INDEX latest_of_kin ON latest (annotator, kin)",
        "CREATE INDEX leases_of_kin ON leases (annotator, kin)",
        """CREATE TABLE names (
            seq {serial}, answer_id TEXT NOT NULL UNIQUE, annotator TEXT NOT NULL, at TEXT NOT NULL,
            frame_id TEXT NOT NULL, task_id TEXT NOT NULL, said TEXT NOT NULL, label TEXT NOT NULL,
            condition TEXT NOT NULL, seconds DOUBLE PRECISION, note TEXT NOT NULL, page_version TEXT NOT NULL)""",
        """CREATE TABLE drawn (
            seq {serial}, answer_id TEXT NOT NULL UNIQUE, annotator TEXT NOT NULL, at TEXT NOT NULL,
            stage TEXT NOT NULL, frame_id TEXT NOT NULL, task_id TEXT NOT NULL, label TEXT NOT NULL,
            decision TEXT NOT NULL, xyxy TEXT, reason TEXT NOT NULL, suggested INTEGER NOT NULL,
            seconds DOUBLE PRECISION, note TEXT NOT NULL, page_version TEXT NOT NULL)""",
        *(
            f"CREATE INDEX {table}_{name} ON {table} ({columns})"
            for table in ("names", "drawn")
            for name, columns in (("of_annotator", "annotator, seq"), ("by_time", "at"), ("of_task", "task_id"))
        ),
    ),
    # Which image of a kin a person was given. The row is permanent: after the lease ends, the person has still seen it.
    4: (
        """CREATE TABLE given (
            annotator TEXT NOT NULL, kin TEXT NOT NULL, task_id TEXT NOT NULL, PRIMARY KEY (annotator, kin))""",
        "INSERT INTO given SELECT annotator, kin, min(task_id) FROM latest WHERE kin <> '' GROUP BY annotator, kin",
        "INSERT INTO given SELECT annotator, kin, min(task_id) FROM leases l WHERE kin <> '' AND NOT EXISTS "
        "(SELECT 1 FROM given g WHERE g.annotator = l.annotator AND g.kin = l.kin) GROUP BY annotator, kin",
    ),
    # Stored counts of tasks (`tally`), filled when the tasks are next planned, and an index for claims.
    5: (
        """CREATE TABLE counts (
            question TEXT NOT NULL, kind TEXT NOT NULL, condition TEXT NOT NULL, tasks INTEGER NOT NULL,
            open1 INTEGER NOT NULL, open2 INTEGER NOT NULL, waiting INTEGER NOT NULL,
            PRIMARY KEY (question, kind, condition))""",
        """CREATE TABLE own_counts (
            annotator TEXT NOT NULL, question TEXT NOT NULL, kind TEXT NOT NULL, said INTEGER NOT NULL,
            first INTEGER NOT NULL, open1 INTEGER NOT NULL, open2 INTEGER NOT NULL, waiting INTEGER NOT NULL,
            PRIMARY KEY (annotator, question, kind))""",
        "CREATE INDEX latest_by_time ON latest (annotator, at)",
        "CREATE INDEX leases_by_end ON leases (expires)",
    ),
    # Which tasks a person was assigned in each round, permanently. Only these people may answer. A page from before the
    # upgrade may hold leased tasks or tasks of round two, so these count as assigned.
    6: (
        """CREATE TABLE asked (
            task_id TEXT NOT NULL, annotator TEXT NOT NULL, round INTEGER NOT NULL,
            PRIMARY KEY (task_id, annotator, round))""",
        "INSERT INTO asked SELECT task_id, annotator, 1 FROM leases",
        "INSERT INTO asked SELECT t.task_id, a.name, 2 FROM tasks t, annotators a WHERE t.open2 = 1 "
        "AND a.role <> 'observer'",
    ),
    # A fourth question: does a flickering set show one thing throughout?
    7: (
        """CREATE TABLE checks (
            seq {serial}, answer_id TEXT NOT NULL UNIQUE, annotator TEXT NOT NULL, at TEXT NOT NULL,
            set_id TEXT NOT NULL, frame_id TEXT NOT NULL, task_id TEXT NOT NULL, said TEXT NOT NULL,
            seconds DOUBLE PRECISION, note TEXT NOT NULL, page_version TEXT NOT NULL)""",
        *(
            f"CREATE INDEX checks_{name} ON checks ({columns})"
            for name, columns in (("of_annotator", "annotator, seq"), ("by_time", "at"), ("of_task", "task_id"))
        ),
    ),
}
"""The statements of each version, in order. They are never edited: a schema change adds a new version."""

_SERIAL = {
    "sqlite": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "postgresql": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
}


def migrate(connection: Connection, migrations: Mapping[int, tuple[str, ...]] = MIGRATIONS) -> int:
    """Migrate the database to the newest version and return the version. A newer database is refused."""
    connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY)")
    have = connection.exec_driver_sql("SELECT max(version) FROM schema_version").scalar() or 0
    newest = max(migrations)
    if have > newest:
        raise StrobeError(
            f"the review database has version {have}, newer than this strobe supports ({newest}); upgrade strobe"
        )
    for version in range(have + 1, newest + 1):
        for statement in migrations[version]:
            connection.exec_driver_sql(statement.replace("{serial}", _SERIAL[connection.dialect.name]))
        connection.exec_driver_sql(f"INSERT INTO schema_version (version) VALUES ({version})")
    return newest
