"""Superset for the tests of its bundle: locked packages, and a database in a folder of the test."""

from __future__ import annotations

import hashlib
import http
import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from stack.folders import alone_in
from tests.patience import wait_until
from tests.scripts import FOLDER, module_of

_ROOT: Final = Path(__file__).parents[1]
_LOCK: Final = _ROOT / "requirements" / "superset.txt"
_CACHE: Final = _ROOT / ".cache" / "superset"
_SECONDS: Final = 600
ADMIN: Final = "admin"

# Runs several commands of Superset in one process, as importing it takes longer than most of them.
_COMMANDS: Final = """
import json, sys
from flask.cli import ScriptInfo
from superset.cli.main import superset
application = ScriptInfo()
for words in json.loads(sys.argv[1]):
    superset.main(args=words, standalone_mode=False, obj=application)
"""

# Runs within Superset: queries of every chart of a dashboard, sent to the database at an address.
_ASK: Final = """
import json, sys
from flask import g
from superset.app import create_app
application = create_app()
with application.app_context():
    from superset import db, security_manager
    from superset.models.core import Database
    from superset.models.slice import Slice
    from superset.utils.date_parser import get_since_until
    g.user = security_manager.find_user(sys.argv[1])
    db.session.query(Database).one().set_sqlalchemy_uri(sys.argv[2])
    db.session.commit()
    since, until = get_since_until(time_range=sys.argv[3])
    answers = {}
    for chart in db.session.query(Slice).all():
        form = chart.form_data
        by = form.get("timeseries_limit_metric")
        answer = chart.datasource.query({
            "columns": form["groupby"], "metrics": form["metrics"], "is_timeseries": "x_axis" in form,
            "granularity": chart.datasource.main_dttm_col, "from_dttm": since, "to_dttm": until,
            "extras": {"time_grain_sqla": form.get("time_grain_sqla")}, "filter": [],
            "row_limit": form["row_limit"], "order_desc": form.get("order_desc", True),
            "orderby": [(by, not form["order_desc"])] if by else [],
        })
        answers[chart.slice_name] = {
            "error": answer.error_message, "sql": answer.query,
            "rows": json.loads(answer.df.to_json(orient="records")),
        }
    print("ANSWERS" + json.dumps(answers))
"""


# Runs within Superset: changes the address of its database.
_LEAD: Final = """
import sys
from superset.app import create_app
application = create_app()
with application.app_context():
    from superset import db
    from superset.models.core import Database
    db.session.query(Database).one().set_sqlalchemy_uri(sys.argv[1])
    db.session.commit()
"""


class Superset:
    """Empty Superset with one administrator. `folder`: for its database."""

    def __init__(self, folder: Path) -> None:
        self._bin = _installed() / "bin"
        settings = folder / "superset_config.py"
        settings.write_text(
            f"SECRET_KEY = {os.urandom(24).hex()!r}\n"
            f"SQLALCHEMY_DATABASE_URI = {f'sqlite:///{folder}/superset.db'!r}\n",
            encoding="utf-8",
        )
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        self._environment = {
            **kept,
            "SUPERSET_CONFIG_PATH": str(settings),
            "SUPERSET_HOME": str(folder),
            "FLASK_APP": "superset",
        }
        person = ("--firstname", "Ada", "--lastname", "Admin", "--email", "ada@example.org")
        admin = ("fab", "create-admin", "--username", ADMIN, *person, "--password", ADMIN)
        self._run("python", "-c", _COMMANDS, json.dumps([("db", "upgrade"), admin, ("init",)]))

    def take(self, bundle: Path) -> None:
        """Import a bundle of dashboards."""
        self._run("superset", "import-dashboards", "-p", str(bundle), "-u", ADMIN)

    def answers(self, database: str, period: str) -> Mapping[str, Any]:
        """Return the data of each chart by name: `error`, `sql`, `rows`. `database`: SQLAlchemy address.

        `period`: such as "2026-01-01T00:00:00 : 2026-01-02T00:00:00".
        """
        said = self._run("python", "-c", _ASK, ADMIN, database, period)
        (line,) = [line for line in said.splitlines() if line.startswith("ANSWERS")]
        found: Mapping[str, Any] = json.loads(line.removeprefix("ANSWERS"))
        return found

    @contextmanager
    def serving(self, database: str, port: int) -> Iterator[str]:
        """Run the web server on loopback for the context; yield its URL. `ADMIN` is also the password.

        `database`: SQLAlchemy address that its charts query.
        """
        self._run("python", "-c", _LEAD, database)
        url = f"http://127.0.0.1:{port}"
        command = [str(self._bin / "superset"), "run", "--with-threads", "-h", "127.0.0.1", "-p", str(port)]
        process = subprocess.Popen(
            command, env=self._environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            wait_until(lambda: _answers(f"{url}/health"), "Superset's pages")
            yield url
        finally:
            process.terminate()
            process.wait()

    def _run(self, program: str, *arguments: str) -> str:
        done = subprocess.run(
            [str(self._bin / program), *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return bool(answer.status == http.HTTPStatus.OK)
    except OSError:
        return False


def _installed() -> Path:
    """Return a virtual environment of the lock file, created once; concurrent calls wait for each other."""
    digest = hashlib.sha256(_LOCK.read_bytes()).hexdigest()[:16]
    folder = _CACHE / digest
    with alone_in(_CACHE):
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _quietly(sys.executable, "-m", "venv", "--without-pip", str(folder))
            _install(folder / "bin" / "python")
            (folder / "complete").touch()
    return folder


def _install(python: Path) -> None:
    """Install with uv from the registry configured for pip: seconds instead of minutes."""
    listing = _quietly(sys.executable, "-m", "pip", "config", "list")
    settings = module_of(FOLDER / "uv_settings.py")  # which scripts/bootstrap.py uses too
    options = settings.read(listing)
    uv = (str(Path(sys.executable).parent / "uv"), "pip", "install", "--python", str(python))
    environment = {**os.environ, **settings.environment_of(options, os.environ)}
    more = ("--no-deps", *settings.arguments_of(options), "--require-hashes", "-r", str(_LOCK))
    _quietly(*uv, *more, environment=environment)


def _quietly(*command: str, environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=_SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
