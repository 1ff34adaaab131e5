"""Convert the configuration of pip into options of uv, which does not read it.

A user who has configured pip for a private registry need not configure uv. Standard library only.
"""

from __future__ import print_function

import ast
import os

_SECTIONS = ("global.", "install.", ":env:.")  # the last one with an option wins, as in pip
_AS_THEY_ARE = {
    "index-url": "UV_DEFAULT_INDEX",
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "retries": "UV_HTTP_RETRIES",
}


def read(listing):
    """Map each option in the output of `pip config list` to its value. The section is omitted from the
    name."""
    found = {}
    for section in _SECTIONS:
        for line in listing.splitlines():
            key, _, value = line.partition("=")
            if key.startswith(section):
                found[key[len(section) :]] = _text(value)
    return found


def arguments_of(options):
    """Return the options that uv accepts only on its command line."""
    return ["--no-index"] if _is_on(options.get("no-index", "")) else []


def environment_of(options, present):
    """Return environment variables for uv in addition to `present`, without replacing variables of uv.

    Addresses may contain passwords, and other users can read command lines, so they are variables.
    """
    wanted = {name: options[option] for option, name in _AS_THEY_ARE.items() if options.get(option)}
    wanted.update(_of_lists(options))
    wanted.update(_of_the_connection(options))
    if "no-cache-dir" in options:
        wanted["UV_NO_CACHE"] = "1"
    if options.get("keyring-provider") == "subprocess":
        wanted["UV_KEYRING_PROVIDER"] = "subprocess"
    if "SSL_CERT_FILE" not in wanted:
        wanted.update(_of_certificates(present))
    return {
        name: value for name, value in wanted.items() if name not in present or not name.startswith("UV_")
    }


def _of_lists(options):
    found = {}
    more = options.get("extra-index-url", "").split()
    if more:
        found["UV_INDEX"] = " ".join(more)
        # pip looks in all of them. Sums are locked, so another package of the same name is refused.
        found["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    places = [
        place for place in options.get("find-links", "").split() if "://" in place or os.path.exists(place)
    ]
    if places:
        found["UV_FIND_LINKS"] = ",".join(places)
    hosts = options.get("trusted-host", "").split()
    if hosts:
        found["UV_INSECURE_HOST"] = " ".join(hosts)
    return found


def _of_the_connection(options):
    found = {}
    proxy = options.get("proxy")
    if proxy:
        found["HTTPS_PROXY"] = found["HTTP_PROXY"] = proxy if "://" in proxy else "http://" + proxy
    seconds = options.get("timeout") or options.get("default-timeout")
    if seconds:
        found["UV_HTTP_TIMEOUT"] = str(int(float(seconds)) or 1)
    return found


def _of_certificates(present):
    """Return variables that make uv trust the same certificates as pip. By default, uv trusts only its
    own."""
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        if present.get(name):
            return {"SSL_CERT_FILE": present[name]}
    return {"UV_SYSTEM_CERTS": "1"}


def _text(value):
    try:
        return str(ast.literal_eval(value))
    except (SyntaxError, ValueError):
        return value


def _is_on(value):
    return value.lower() in ("1", "y", "yes", "t", "true", "on")
