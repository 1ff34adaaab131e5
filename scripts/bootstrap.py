"""Set up this checkout: `python3 scripts/bootstrap.py [complete] [-- COMMAND …]`.

Creates the virtual environment. With `complete` it also compiles the data plane and downloads the jars of the
servers, in parallel to the installation and the command, and waits for both.

Uses the standard library only. The syntax is old enough for an old Python to report that it is too old. A
failure is one line with a remedy. Child processes are killed when this process ends, also when its parent
dies.
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
PROJECTS = [ROOT, os.path.join(ROOT, "headrace_dev")]
PIP = [VENV_PYTHON, "-m", "pip", "--disable-pip-version-check", "--no-input"]
BEGUN = "begun"
BUILT_HERE = "pyspark"  # the one package that the registry has as sources only
NOT_COMPILED, NO_COMPILER = 1, 3  # exit codes of headrace_dev/compilation


def fail(message):
    print("setup: " + message, file=sys.stderr)
    sys.exit(1)


def say(message):
    print("setup: " + message, flush=True)


def check_python():
    if sys.version_info[:2] < NEEDED:
        fail(
            "Python {}.{} or newer is required, {} is {}.{}; run make with PYTHON=/path/to/python3.11".format(
                NEEDED[0], NEEDED[1], sys.executable, sys.version_info[0], sys.version_info[1]
            )
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        fail(
            "this Python has no venv module; install it (Debian: python3-venv) or set PYTHON= to another Python"
        )


def check_disk():
    free = shutil.disk_usage(ROOT).free
    if free < NEEDED_FREE_BYTES:
        fail(
            "{:.1f} GB free under {}, {:.0f} GB required; free some space or clone to another disk".format(
                free / 1e9, ROOT, NEEDED_FREE_BYTES / 1e9
            )
        )


def wanted_stamp():
    digest = hashlib.sha256(sys.version.encode())
    for path in [LOCK] + [os.path.join(project, "pyproject.toml") for project in PROJECTS]:
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
        texts = [line.strip() for line in lines if line.strip()]
    errors = [line for line in texts if line.startswith("ERROR")]
    return (errors or texts or ["nothing was logged"])[-1]


def requirements(name, wanted):
    """Write a requirements file with the locked packages that `wanted` accepts, with their hashes, and return
    it."""
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
    """Installs the locked packages with uv, or with pip if uv is unavailable or fails."""

    def __init__(self, children):
        self.children = children
        self.uv = None
        self.options = []
        self.environment = dict(os.environ)

    def run(self, arguments, says, environment=None):
        return self.children.run(arguments, says, LOG, environment) == 0

    def fetch_uv(self):
        """Download the uv executable. It is kept, because a later set-up may run without a registry."""
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

    def install(self, most_are_installed):
        if self.fetch_uv() and self.install_with_uv(most_are_installed):
            return
        say("uv failed ({:.200}); installing with pip, which takes minutes".format(tail_of(LOG)))
        if not self.run(
            PIP + ["install", "--no-compile", "--require-hashes", "-r", LOCK], "installing with pip"
        ):
            self.fail_to_install()
        most_are_installed()
        editable = ["install", "--no-deps", "--no-build-isolation", "--no-index"] + self.editable()
        if not self.run(PIP + editable, "installing headrace itself"):
            self.fail_for_headrace()

    def install_with_uv(self, most_are_installed):
        """Install the wheels first; packages built from source then use locked build tools from them."""
        most = requirements("most", lambda name: name != BUILT_HERE)
        with open(most) as lines:
            number = sum("==" in line for line in lines)
        if not self.uv_install(["-r", most], "installing {} packages into .venv".format(number)):
            return False
        most_are_installed()
        last = requirements("last", lambda name: name == BUILT_HERE)
        # Its jars are compressed: compressing them again would take most of the build time.
        built = ["--no-build-isolation", "--config-settings=--build-option=--compression=stored", "-r", last]
        if os.path.getsize(last) and not self.uv_install(built, "installing " + BUILT_HERE + ", the largest"):
            return False
        editable = ["--no-build-isolation", "--no-index"] + self.editable()
        if not self.run(self.uv + editable, "installing headrace itself", self.environment):
            self.fail_for_headrace()
        return True

    def editable(self):
        return [argument for project in PROJECTS for argument in ("-e", project)]

    def uv_install(self, arguments, says):
        command = self.uv + self.options + ["--require-hashes"] + arguments
        if self.run(command, says, self.environment):
            return True
        offline = command + ["--offline"]
        return self.run(offline, "the registry failed; installing from uv's cache", self.environment)

    def fail_to_install(self):
        reason = tail_of(LOG)
        if "No space left" in reason:
            fail("the disk is full while installing packages; free 6 GB and run make again")
        fail(
            "cannot install packages ({}); check that the package registry is reachable, or set a proxy or mirror "
            "with HTTPS_PROXY or PIP_INDEX_URL; the log is .cache/setup.log".format(reason)
        )

    def fail_for_headrace(self):
        fail("cannot install headrace ({}); the log is .cache/setup.log".format(tail_of(LOG)))


def set_up(children, most_are_installed):
    if os.path.islink(VENV):
        fail(
            ".venv is a symbolic link to {}, which another checkout may use; remove the link".format(
                os.path.realpath(VENV)
            )
        )
    check_disk()
    begin_log(LOG)
    version = "{}.{}".format(*sys.version_info[:2])
    # Files half written by an interrupted installation look installed.
    if read_stamp() == BEGUN or not os.path.isdir(os.path.join(VENV, "lib", "python" + version)):
        shutil.rmtree(VENV, ignore_errors=True)
    if not os.path.isdir(VENV):
        os.makedirs(VENV)
    write_stamp(BEGUN)
    making = [sys.executable, "-m", "venv", VENV]
    if children.run(making, "making .venv with Python " + version + ", log in .cache/setup.log", LOG) != 0:
        fail("cannot create the virtual environment ({})".format(tail_of(LOG)))
    Installation(children).install(most_are_installed)
    write_stamp(wanted_stamp())


def set_up_once(children, most_are_installed):
    """Run one set-up at a time; others wait. Child processes of the first one also hold the lock."""
    if is_done():
        return
    if not os.path.isdir(CACHE):
        os.makedirs(CACHE)
    lock = os.open(os.path.join(CACHE, "setup.lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        waits = False
        while not take(lock):
            if not waits:
                say("another make is setting up this checkout; waiting for it")
                waits = True
            children.pause()
        if not is_done():
            children.inherited = (lock,)
            set_up(children, most_are_installed)
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
    """Optional artefacts: compiled modules, jars, class archives and a browser. Created in parallel."""

    def __init__(self, children):
        self.children = children
        self.compiling = None
        self.jars = None
        self.archives = None
        self.browser = None

    def compile(self):
        """Compile the data plane, which the interpreter runs otherwise."""
        if self.compiling is not None:
            return
        command = [VENV_PYTHON, "-m", "headrace_dev.compilation"]
        status = subprocess.call(command + ["check"], cwd=ROOT)
        if status == NOT_COMPILED:
            self.compiling = self._begin(command + ["build"], "compiling the data plane", "compile.log")
        elif status == NO_COMPILER:
            say(
                "no C compiler or Python headers: the data plane runs interpreted and takes more CPU time; "
                "install them (Debian: gcc python3-dev) and run make setup again"
            )

    def fetch_jars(self):
        """Download the jars of Kafka, Pinot and Spark's connectors, which a starting server downloads
        otherwise."""
        self.jars = self._begin_unless_present(
            "stack.jars", "fetch", "fetching the servers' jars", "jars.log"
        )

    def archive_classes(self):
        """Create class archives, with which servers start in half the CPU time."""
        self.archives = self._begin_unless_present(
            "stack.archives", "make", "archiving the servers' classes", "archives.log"
        )

    def fetch_browser(self):
        """Download Chromium and axe for the tests of the web pages, which download them otherwise."""
        self.browser = self._begin_unless_present(
            "tests.browser.packages", "fetch", "fetching the tests' browser", "browser.log"
        )

    def _begin_unless_present(self, module, verb, what, log_name):
        """Start the command of a module, and return its process. If its `check` finds nothing to do, return
        None."""
        command = [VENV_PYTHON, "-m", module]
        if subprocess.call(command + ["check"], cwd=ROOT) == 0:
            return None
        return self._begin(command + [verb], what, log_name)

    def _begin(self, command, what, log_name):
        log = os.path.join(CACHE, log_name)
        begin_log(log)
        return self.children.begin(command, what + " in the background", log)

    def finish(self):
        self._end(
            self.browser,
            "the browser",
            "downloaded the tests' browser",
            "cannot download the tests' browser: {:.200}",
        )
        self._end(
            self.jars, "the jars", "downloaded the jars", "some jars of the servers are missing: {:.200}"
        )
        self._end(
            self.archives,
            "the archives of classes",
            "archived the classes of the servers",
            "servers start without class archives: {:.200}",
        )
        self._end(
            self.compiling,
            "the compiler",
            "compiled the data plane",
            "cannot compile the data plane, which runs interpreted and takes more CPU time; "
            "see .cache/compile.log: {:.100}",
        )

    def _end(self, child, name, done, failed):
        """Wait for a child process, if it was started. `failed`: format of the message, with the end of its
        log."""
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
