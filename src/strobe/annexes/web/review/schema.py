"""The tables of the review database: one schema for SQLite and PostgreSQL."""

from sqlalchemy import Connection

from strobe.core.errors import StrobeError

VERSION = 7
"""The version of the tables. A database of another version is refused."""

TABLES = (
    "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE annotators (
        name TEXT PRIMARY KEY, role TEXT NOT NULL, paused INTEGER NOT NULL DEFAULT 0, created_at TEXT NOT NULL)""",
    """CREATE TABLE access_keys (
        hash TEXT PRIMARY KEY, name TEXT NOT NULL, created_at TEXT NOT NULL, seal TEXT NOT NULL)""",
    """CREATE TABLE sessions (
        hash TEXT PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, created_at TEXT NOT NULL,
        seen_at TEXT NOT NULL DEFAULT '', seal TEXT NOT NULL)""",
    # A task belongs to one question, and each question has its own table of answers, so that no answer is counted for
    # another question.
    """CREATE TABLE tasks (
        task_id TEXT PRIMARY KEY, kind TEXT NOT NULL, position INTEGER NOT NULL, set_id TEXT NOT NULL,
        frame_id TEXT NOT NULL, votes INTEGER NOT NULL DEFAULT 0, flags INTEGER NOT NULL DEFAULT 0,
        voters INTEGER NOT NULL DEFAULT 0, bads INTEGER NOT NULL DEFAULT 0, held INTEGER NOT NULL DEFAULT 0,
        open1 INTEGER NOT NULL DEFAULT 0, open2 INTEGER NOT NULL DEFAULT 0, question TEXT NOT NULL DEFAULT 'pairs',
        kin TEXT NOT NULL DEFAULT '', condition TEXT NOT NULL DEFAULT '')""",
    "CREATE INDEX tasks_round_one ON tasks (question, kind, open1, position)",
    "CREATE INDEX tasks_round_two ON tasks (question, open2, position)",
    "CREATE INDEX tasks_of_pair ON tasks (question, set_id, frame_id)",
    "CREATE INDEX tasks_of_picture ON tasks (question, frame_id)",
    "CREATE INDEX tasks_of_kin ON tasks (question, kind, open1, kin)",
    "CREATE INDEX tasks_of_condition ON tasks (question, kind, open1, condition, position)",
    """CREATE TABLE verdicts (
        seq {serial}, verdict_id TEXT NOT NULL UNIQUE, annotator TEXT NOT NULL, at TEXT NOT NULL,
        stage TEXT NOT NULL, set_id TEXT NOT NULL, frame_id TEXT NOT NULL, task_id TEXT NOT NULL,
        decision TEXT NOT NULL, label_right INTEGER, reason TEXT NOT NULL, bad_anchor INTEGER NOT NULL,
        labels TEXT NOT NULL, note TEXT NOT NULL, seconds DOUBLE PRECISION, page_version TEXT NOT NULL)""",
    """CREATE TABLE names (
        seq {serial}, answer_id TEXT NOT NULL UNIQUE, annotator TEXT NOT NULL, at TEXT NOT NULL,
        frame_id TEXT NOT NULL, task_id TEXT NOT NULL, said TEXT NOT NULL, label TEXT NOT NULL,
        condition TEXT NOT NULL, seconds DOUBLE PRECISION, note TEXT NOT NULL, page_version TEXT NOT NULL)""",
    """CREATE TABLE drawn (
        seq {serial}, answer_id TEXT NOT NULL UNIQUE, annotator TEXT NOT NULL, at TEXT NOT NULL,
        stage TEXT NOT NULL, frame_id TEXT NOT NULL, task_id TEXT NOT NULL, label TEXT NOT NULL,
        decision TEXT NOT NULL, xyxy TEXT, reason TEXT NOT NULL, suggested INTEGER NOT NULL,
        seconds DOUBLE PRECISION, note TEXT NOT NULL, page_version TEXT NOT NULL)""",
    """CREATE TABLE checks (
        seq {serial}, answer_id TEXT NOT NULL UNIQUE, annotator TEXT NOT NULL, at TEXT NOT NULL,
        set_id TEXT NOT NULL, frame_id TEXT NOT NULL, task_id TEXT NOT NULL, said TEXT NOT NULL,
        seconds DOUBLE PRECISION, note TEXT NOT NULL, page_version TEXT NOT NULL)""",
    *(
        f"CREATE INDEX {table}_{name} ON {table} ({columns})"
        for table in ("verdicts", "names", "drawn", "checks")
        for name, columns in (("of_annotator", "annotator, seq"), ("by_time", "at"), ("of_task", "task_id"))
    ),
    """CREATE TABLE latest (
        task_id TEXT NOT NULL, annotator TEXT NOT NULL, round INTEGER NOT NULL, at TEXT NOT NULL,
        verdict_id TEXT NOT NULL, clean INTEGER NOT NULL, bad INTEGER NOT NULL, kin TEXT NOT NULL DEFAULT '',
        PRIMARY KEY (task_id, annotator, round))""",
    "CREATE INDEX latest_of_annotator ON latest (annotator, round)",
    "CREATE INDEX latest_of_kin ON latest (annotator, kin)",
    "CREATE INDEX latest_by_time ON latest (annotator, at)",
    """CREATE TABLE leases (
        task_id TEXT NOT NULL, annotator TEXT NOT NULL, tab TEXT NOT NULL, expires DOUBLE PRECISION NOT NULL,
        kin TEXT NOT NULL DEFAULT '', PRIMARY KEY (task_id, annotator))""",
    "CREATE INDEX leases_of_annotator ON leases (annotator, expires)",
    "CREATE INDEX leases_of_kin ON leases (annotator, kin)",
    "CREATE INDEX leases_by_end ON leases (expires)",
    # Which image of a kin a person was given. The row is permanent: after the lease ends, the person has still seen it.
    """CREATE TABLE given (
        annotator TEXT NOT NULL, kin TEXT NOT NULL, task_id TEXT NOT NULL, PRIMARY KEY (annotator, kin))""",
    # Stored counts of tasks (`tally`), filled when the tasks are planned.
    """CREATE TABLE counts (
        question TEXT NOT NULL, kind TEXT NOT NULL, condition TEXT NOT NULL, tasks INTEGER NOT NULL,
        open1 INTEGER NOT NULL, open2 INTEGER NOT NULL, waiting INTEGER NOT NULL,
        PRIMARY KEY (question, kind, condition))""",
    """CREATE TABLE own_counts (
        annotator TEXT NOT NULL, question TEXT NOT NULL, kind TEXT NOT NULL, said INTEGER NOT NULL,
        first INTEGER NOT NULL, open1 INTEGER NOT NULL, open2 INTEGER NOT NULL, waiting INTEGER NOT NULL,
        PRIMARY KEY (annotator, question, kind))""",
    # Which tasks a person was assigned in each round, permanently. Only these people may answer.
    """CREATE TABLE asked (
        task_id TEXT NOT NULL, annotator TEXT NOT NULL, round INTEGER NOT NULL,
        PRIMARY KEY (task_id, annotator, round))""",
)

_SERIAL = {
    "sqlite": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "postgresql": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
}


def make_tables(connection: Connection) -> None:
    """Create the tables in an empty database. A database of another version is refused."""
    connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY)")
    version = connection.exec_driver_sql("SELECT max(version) FROM schema_version").scalar()
    if version is None:
        for statement in TABLES:
            connection.exec_driver_sql(statement.replace("{serial}", _SERIAL[connection.dialect.name]))
        connection.exec_driver_sql(f"INSERT INTO schema_version (version) VALUES ({VERSION})")
    elif version != VERSION:
        raise StrobeError(
            f"the review database has version {version}, and this strobe supports only version {VERSION}; use the "
            "strobe that made it, or another database"
        )
