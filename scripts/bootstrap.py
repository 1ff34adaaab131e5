"""Make this checkout ready: `python3 scripts/bootstrap.py [complete] [-- COMMAND …]`.

Makes the virtual environment. With `complete` it also compiles the data plane and fetches the jars of the
servers, both beside the installing and beside the command, and ends when all of them have.

Standard library only, and written so that an old Python can read it far enough to say that it is
too old. Every failure is one line that says what to do. Ends its children when it is ended itself,
also when whoever started it dies without a word.
"""

from __future__ import print_function

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import uv_settings
from children import Children

NEEDED = (3, 11)
NEEDED_FREE_BYTES = 6 * 1000**3
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
VENV_PYTHON = os.path.join(VENV, "bin", "python")
LOCK = os.path.join(ROOT, "requirements", "dev.txt")
STAMP = os.path.join(VENV, ".headrace-setup")
CACHE = os.path.join(ROOT, ".cache")
WORK = os.path.join(CACHE, "setup")
LOG = os.path.join(CACHE, "setup.log")
PIP = [VENV_PYTHON, "-m", "pip", "--disable-pip-version-check", "--no-input"]
BEGUN = "begun"
BUILT_HERE = "pyspark"  # the one package that the registry has as sources only
NOT_COMPILED, NO_COMPILER = 1, 3  # exit codes of headrace/process/compilation


def fail(message):
    print("setup: " + message, file=sys.stderr)
    sys.exit(1)


def say(message):
    print("setup: " + message, flush=True)


def check_python():
    if sys.version_info[:2] < NEEDED:
        fail(
            "Python {}.{} or newer is needed, and {} is {}.{}; run make with PYTHON=/path/to/python3.11".format(
                NEEDED[0], NEEDED[1], sys.executable, sys.version_info[0], sys.version_info[1]
            )
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        fail("this Python has no venv module; install it (Debian: python3-venv) or name another with PYTHON=")


def check_disk():
    free = shutil.disk_usage(ROOT).free
    if free < NEEDED_FREE_BYTES:
        fail(
            "{:.1f} GB free under {}, {:.0f} GB are needed; free some space or clone to another disk".format(
                free / 1e9, ROOT, NEEDED_FREE_BYTES / 1e9
            )
        )


def wanted_stamp():
    digest = hashlib.sha256(sys.version.encode())
    for path in (LOCK, os.path.join(ROOT, "pyproject.toml")):
        with open(path, "rb") as lines:
            digest.update(lines.read())
    digest.update(ROOT.encode())
    return digest.hexdigest()


def read_stamp():
    try:
        with open(STAMP) as stamp:
            return stamp.read()
    except OSError:
        return ""


def write_stamp(text):
    with open(STAMP, "w") as stamp:
        stamp.write(text)


def is_done():
    return read_stamp() == wanted_stamp() and os.path.exists(VENV_PYTHON)


def begin_log(log):
    if not os.path.isdir(CACHE):
        os.makedirs(CACHE)
    open(log, "w").close()


def tail_of(log):
    with open(log, errors="replace") as lines:
        said = [line.strip() for line in lines if line.strip()]
    errors = [line for line in said if line.startswith("ERROR")]
    return (errors or said or ["nothing was logged"])[-1]


def requirements(name, wanted):
    """A file with those packages of the lock, and their sums, whose names `wanted` takes."""
    if not os.path.isdir(WORK):
        os.makedirs(WORK)
    path = os.path.join(WORK, name + ".txt")
    taking = False
    with open(LOCK) as lines, open(path, "w") as file:
        for line in lines:
            if "==" in line and not line.startswith(" "):
                taking = wanted(line.partition("==")[0].partition("[")[0])
            if taking:
                file.write(line)
    return path


class Installation(object):
    """What the lock says, by uv, and by pip where uv cannot be had or fails."""

    def __init__(self, children):
        self.children = children
        self.uv = None
        self.options = []
        self.environment = dict(os.environ)

    def run(self, arguments, says, environment=None):
        return self.children.run(arguments, says, LOG, environment) == 0

    def fetch_uv(self):
        """The executable, kept for the next time: then it is needed when the registry is away, too."""
        file = requirements("uv", lambda name: name == "uv")
        with open(file, "rb") as lines:
            kept = os.path.join(WORK, "uv-" + hashlib.sha256(lines.read()).hexdigest()[:16])
        if not self.runs(kept):
            command = PIP + ["install", "--no-deps", "--only-binary", ":all:", "--require-hashes", "-r", file]
            installed = os.path.join(VENV, "bin", "uv")
            if not self.run(command, "fetching uv, which installs the rest") or not self.runs(installed):
                return False
            arriving = "{}.{}".format(kept, os.getpid())
            shutil.copy(installed, arriving)
            os.rename(arriving, kept)
        listing = subprocess.check_output(PIP + ["config", "list"], stderr=subprocess.DEVNULL)
        options = uv_settings.read(listing.decode("utf-8", "replace"))
        self.options = uv_settings.arguments_of(options)
        self.environment.update(uv_settings.environment_of(options, os.environ))
        self.uv = [
            kept,
            "--no-progress",
            "--color",
            "never",
            "pip",
            "install",
            "--python",
            VENV_PYTHON,
            "--no-deps",
        ]
        return True

    def runs(self, executable):
        try:
            with open(os.devnull, "w") as nothing:
                return subprocess.call([executable, "--version"], stdout=nothing, stderr=nothing) == 0
        except OSError:
            return False

    def install(self, most_are_here):
        if self.fetch_uv() and self.install_with_uv(most_are_here):
            return
        say("uv cannot install here ({:.200}), so pip does, which takes minutes".format(tail_of(LOG)))
        if not self.run(
            PIP + ["install", "--no-compile", "--require-hashes", "-r", LOCK], "installing with pip"
        ):
            self.fail_to_install()
        most_are_here()
        editable = ["install", "--no-deps", "--no-build-isolation", "--no-index", "-e", ROOT]
        if not self.run(PIP + editable, "installing headrace itself"):
            self.fail_for_headrace()

    def install_with_uv(self, most_are_here):
        """First what comes ready made. What is built here then takes its tools from there, locked as well."""
        most = requirements("most", lambda name: name != BUILT_HERE)
        with open(most) as lines:
            number = sum("==" in line for line in lines)
        if not self.uv_install(["-r", most], "installing {} packages into .venv".format(number)):
            return False
        most_are_here()
        last = requirements("last", lambda name: name == BUILT_HERE)
        # Its jars are compressed already: compressing them again takes most of the time of the building.
        built = ["--no-build-isolation", "--config-settings=--build-option=--compression=stored", "-r", last]
        if os.path.getsize(last) and not self.uv_install(built, "installing " + BUILT_HERE + ", the largest"):
            return False
        editable = ["--no-build-isolation", "--no-index", "-e", ROOT]
        if not self.run(self.uv + editable, "installing headrace itself", self.environment):
            self.fail_for_headrace()
        return True

    def uv_install(self, arguments, says):
        command = self.uv + self.options + ["--require-hashes"] + arguments
        if self.run(command, says, self.environment):
            return True
        offline = command + ["--offline"]
        return self.run(offline, "the registry failed; trying with what uv has kept", self.environment)

    def fail_to_install(self):
        reason = tail_of(LOG)
        if "No space left" in reason:
            fail("the disk is full while installing packages; free 6 GB and run make again")
        fail(
            "packages could not be installed ({}); is the package registry reachable? A proxy or mirror "
            "is set with HTTPS_PROXY or PIP_INDEX_URL; the log is .cache/setup.log".format(reason)
        )

    def fail_for_headrace(self):
        fail("headrace could not be installed ({}); the log is .cache/setup.log".format(tail_of(LOG)))


def set_up(children, most_are_here):
    if os.path.islink(VENV):
        fail(
            ".venv is a link to {}, which another may depend on; remove the link".format(
                os.path.realpath(VENV)
            )
        )
    check_disk()
    begin_log(LOG)
    version = "{}.{}".format(*sys.version_info[:2])
    # Files that an interrupted installation has half written look installed.
    if read_stamp() == BEGUN or not os.path.isdir(os.path.join(VENV, "lib", "python" + version)):
        shutil.rmtree(VENV, ignore_errors=True)
    if not os.path.isdir(VENV):
        os.makedirs(VENV)
    write_stamp(BEGUN)
    making = [sys.executable, "-m", "venv", VENV]
    if children.run(making, "making .venv with Python " + version + ", log in .cache/setup.log", LOG) != 0:
        fail("the virtual environment could not be made ({})".format(tail_of(LOG)))
    Installation(children).install(most_are_here)
    write_stamp(wanted_stamp())


def set_up_once(children, most_are_here):
    """One at a time: others wait for the first. What the first has started holds the lock with it."""
    if is_done():
        return
    if not os.path.isdir(CACHE):
        os.makedirs(CACHE)
    lock = os.open(os.path.join(CACHE, "setup.lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        waits = False
        while not take(lock):
            if not waits:
                say("another make sets up this checkout; waiting for it")
                waits = True
            children.pause()
        if not is_done():
            children.inherited = (lock,)
            set_up(children, most_are_here)
    finally:
        children.inherited = ()
        os.close(lock)


def take(lock):
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


class Extras(object):
    """What nothing depends on, and everything is better with: machine code and jars. Made beside the rest."""

    def __init__(self, children):
        self.children = children
        self.compiling = None
        self.jars = None
        self.archives = None
        self.browser = None

    def compile(self):
        """Machine code of the data plane; without it the sources run."""
        if self.compiling is not None:
            return
        command = [VENV_PYTHON, "-m", "headrace.process.compilation"]
        status = subprocess.call(command + ["check"], cwd=ROOT)
        if status == NOT_COMPILED:
            self.compiling = self._begin(command + ["build"], "compiling the data plane", "compile.log")
        elif status == NO_COMPILER:
            say(
                "without a C compiler and Python's headers the data plane runs interpreted, at a higher "
                "price; with them (Debian: gcc python3-dev) run make setup again"
            )

    def fetch_jars(self):
        """Kafka, Pinot and Spark's connectors; without them whoever starts a server fetches them."""
        self.jars = self._begin_unless_there("stack.jars", "fetch", "fetching the servers' jars", "jars.log")

    def archive_classes(self):
        """Archives of classes, with which the servers of hundreds of tests start for half the processor time."""
        self.archives = self._begin_unless_there(
            "stack.archives", "make", "archiving the servers' classes", "archives.log"
        )

    def fetch_browser(self):
        """Chromium and axe, for the tests of the web pages, which fetch them themselves where this has not."""
        self.browser = self._begin_unless_there(
            "tests.browser.packages", "fetch", "fetching the tests' browser", "browser.log"
        )

    def _begin_unless_there(self, module, verb, what, log_name):
        """The child that runs that verb of the module; None where its `check` finds all there."""
        command = [VENV_PYTHON, "-m", module]
        if subprocess.call(command + ["check"], cwd=ROOT) == 0:
            return None
        return self._begin(command + [verb], what, log_name)

    def _begin(self, command, what, log_name):
        log = os.path.join(CACHE, log_name)
        begin_log(log)
        return self.children.begin(command, what + " beside the rest", log)

    def finish(self):
        self._end(
            self.browser,
            "the browser",
            "the tests' browser is here",
            "the tests' browser is not here: {:.200}",
        )
        self._end(
            self.jars, "the jars", "the jars are here", "the jars of the servers are not all here: {:.200}"
        )
        self._end(
            self.archives,
            "the archives of classes",
            "the servers' classes are archived",
            "the servers start without archives of classes: {:.200}",
        )
        self._end(
            self.compiling,
            "the compiler",
            "the data plane is compiled",
            "the data plane could not be compiled and runs interpreted, at a higher price; "
            ".cache/compile.log ends in the reason: {:.100}",
        )

    def _end(self, child, name, done, failed):
        """Wait for it, where it was begun; `failed` takes the end of its log."""
        if child is None:
            return
        if self.children.wait(child, name) == 0:
            say("{}, after {:.0f} s".format(done, child.seconds()))
        else:
            say(failed.format(tail_of(child.log)))


def main(arguments):
    check_python()
    words = arguments[: arguments.index("--")] if "--" in arguments else arguments
    command = arguments[len(words) + 1 :]
    is_complete = "complete" in words
    children = Children(ROOT)
    extras = Extras(children)
    set_up_once(children, extras.compile if is_complete else lambda: None)
    if is_complete:
        extras.compile()
        extras.fetch_jars()
        extras.archive_classes()
        extras.fetch_browser()
    status = children.run_shown(command) if command else 0
    if status != 0:
        children.kill()
        sys.exit(status if status > 0 else 128 - status)
    extras.finish()


if __name__ == "__main__":
    main(sys.argv[1:])
