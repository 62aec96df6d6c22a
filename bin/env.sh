# Shared by bin/run, bin/test and bin/bench: find Python, make .venv, install what is required. Sourced, POSIX sh.

cd "$(dirname "$0")/.." || exit 1
ROOT=$(pwd -P)
VENV=$ROOT/.venv
export LC_ALL="${LC_ALL:-C.UTF-8}"
unset PYTHONHOME PYTHONPATH

fail() {
    printf '%s\n' "$*" >&2
    exit 1
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# Prints the first Python that is new enough; $PYTHON is taken at its word.
find_python() {
    if [ -n "${PYTHON:-}" ]; then
        is_new_enough "$PYTHON" || fail "PYTHON=$PYTHON is not Python 3.11 or newer."
        printf '%s\n' "$PYTHON"
        return
    fi
    for candidate in python3 python3.14 python3.13 python3.12 python3.11 python; do
        if command -v "$candidate" >/dev/null 2>&1 && is_new_enough "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    fail "Python 3.11 or newer is needed and was not found. Install it, or name it: PYTHON=/path/to/python $0"
}

# The requirements and the Python they were installed for.
fingerprint() {
    "$VENV/bin/python" -c 'import hashlib, pathlib, sys
text = "".join(pathlib.Path(name).read_text() for name in ("requirements.txt", sys.argv[1])) + sys.version + sys.prefix
print(hashlib.sha256(text.encode()).hexdigest())' "$1"
}

# prepare_venv FILE: after it, .venv holds what the requirements file names. The stamp is written last, so what was
# interrupted is done again; a virtual environment whose Python or pip does not run is made afresh.
prepare_venv() {
    stamp=$VENV/.installed-$1
    if ! is_new_enough "$VENV/bin/python" || ! { [ -f "$stamp" ] || "$VENV/bin/python" -m pip --version >/dev/null 2>&1; }; then
        python=$(find_python) || exit 1
        "$python" -c 'import ensurepip, venv' >/dev/null 2>&1 ||
            fail "This Python cannot make virtual environments. On Debian and Ubuntu: apt-get install python3-venv"
        echo "Making the virtual environment in .venv ..."
        "$python" -m venv --clear "$VENV" || fail "The virtual environment could not be made in $VENV."
    fi
    wanted=$(fingerprint "$1") || exit 1
    [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && return
    echo "Installing $1 ..."
    "$VENV/bin/python" -m pip install -qq --disable-pip-version-check --no-input -r "$1" ||
        fail "The packages of $1 could not be installed. Is there a network? Starting again goes on from here."
    printf '%s\n' "$wanted" >"$stamp"
}
