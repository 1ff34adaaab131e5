"""Make the virtual environment of this checkout: `python3 scripts/bootstrap.py`.

Standard library only, and written so that an old Python can read it far enough to say that it is
too old. Every failure is one line that says what to do. Ends its children when it is ended itself,
also when whoever started it dies without a word.
"""

from __future__ import print_function

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time

NEEDED = (3, 11)
NEEDED_FREE_BYTES = 6 * 1000**3
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
VENV_PYTHON = os.path.join(VENV, "bin", "python")
LOCK = os.path.join(ROOT, "requirements", "dev.txt")
STAMP = os.path.join(VENV, ".headrace-setup")
LOG = os.path.join(ROOT, ".cache", "setup.log")
NOT_COMPILED, NO_COMPILER = 1, 3  # exit codes of headrace/process/compilation.py


def fail(message):
    print("setup: " + message, file=sys.stderr)
    sys.exit(1)


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


def is_done():
    try:
        with open(STAMP) as stamp:
            return stamp.read() == wanted_stamp() and os.path.exists(VENV_PYTHON)
    except OSError:
        return False


class Child(object):
    """Runs one command in a session of its own and ends it with us."""

    def __init__(self):
        self.process = None
        self.parent = os.getppid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self.on_signal)

    def on_signal(self, number, frame):
        self.kill()
        sys.exit(128 + number)

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except OSError:
                return
            self.process.wait()

    def run(self, arguments, says):
        began = shown = time.monotonic()
        print("setup: " + says, flush=True)
        with open(LOG, "ab") as log:
            self.process = subprocess.Popen(
                arguments, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
            while True:
                try:
                    return self.process.wait(timeout=0.25)
                except subprocess.TimeoutExpired:
                    pass
                if os.getppid() != self.parent:
                    self.kill()
                    sys.exit(1)
                if time.monotonic() - shown > 15:
                    shown = time.monotonic()
                    print("setup: … {:.0f} s".format(shown - began), flush=True)


def begin_log():
    cache = os.path.dirname(LOG)
    if not os.path.isdir(cache):
        os.makedirs(cache)
    open(LOG, "w").close()


def tail_of_log():
    with open(LOG, errors="replace") as log:
        lines = [line.strip() for line in log if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["nothing was logged"])[-1]


def install(child):
    pip = [VENV_PYTHON, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    with open(LOCK) as lines:
        packages = sum("==" in line for line in lines)
    says = "installing about {} packages into .venv (1-3 minutes, log in .cache/setup.log)".format(packages)
    if child.run(pip + ["install", "--require-hashes", "-r", LOCK], says) != 0:
        reason = tail_of_log()
        if "No space left" in reason:
            fail("the disk is full while installing packages; free 6 GB and run make again")
        fail(
            "packages could not be installed ({}); is the package registry reachable? A proxy or mirror "
            "is set with HTTPS_PROXY or PIP_INDEX_URL; the log is .cache/setup.log".format(reason)
        )
    editable = ["install", "--no-deps", "--no-build-isolation", "--no-index", "-e", ROOT]
    if child.run(pip + editable, "installing headrace itself") != 0:
        fail("headrace could not be installed ({}); the log is .cache/setup.log".format(tail_of_log()))


def set_up(child):
    check_disk()
    begin_log()
    if os.path.exists(STAMP):
        os.remove(STAMP)
    version = "{}.{}".format(*sys.version_info[:2])
    if not os.path.isdir(os.path.join(VENV, "lib", "python" + version)):
        shutil.rmtree(VENV, ignore_errors=True)
    if child.run([sys.executable, "-m", "venv", VENV], "making .venv with Python " + version) != 0:
        fail("the virtual environment could not be made ({})".format(tail_of_log()))
    install(child)
    with open(STAMP, "w") as stamp:
        stamp.write(wanted_stamp())


def compile_data_plane(child):
    """Machine code of the data plane. Nothing depends on it: without it the sources run."""
    command = [VENV_PYTHON, "-m", "headrace.process.compilation"]
    status = subprocess.call(command + ["check"], cwd=ROOT)
    if status == NOT_COMPILED:
        begin_log()
        status = child.run(command + ["build"], "compiling the data plane (about a minute)")
    if status == NO_COMPILER:
        print(
            "setup: without a C compiler and Python's headers the data plane runs interpreted, at a higher "
            "price; with them (Debian: gcc python3-dev) run make setup again"
        )
    elif status != 0:
        print(
            "setup: the data plane could not be compiled and runs interpreted, at a higher price; .cache/setup.log "
            "ends in the reason: {:.100}".format(tail_of_log())
        )


def main():
    check_python()
    child = Child()
    if not is_done():
        set_up(child)
    if "compiled" in sys.argv[1:]:
        compile_data_plane(child)


if __name__ == "__main__":
    main()
