# shellcheck shell=sh
# Sourced by the scripts beside it: steps that say what they do and how long it took, and where Swift is.

set -eu

# Programs of all users read what is installed: the databases of file types and icons too, which other programs write.
umask 022

say() { printf '%s\n' "$*"; }

fail() {
  printf 'displayfs: %s\n' "$*" >&2
  exit 1
}

milliseconds() { echo $(($(date +%s%N) / 1000000)); }

# step TEXT COMMAND...: runs the command between two lines. One that fails ends the script, and a function at the first of
# its own commands that does: nothing here makes it a condition.
step() {
  say "==> $1"
  shift
  started=$(milliseconds)
  "$@"
  spent=$(($(milliseconds) - started))
  seconds=$(printf '%d.%02d' $((spent / 1000)) $((spent % 1000 / 10)))
  say "    took $seconds s"
}

# at_exit COMMAND: runs the command when the script ends, also by Ctrl-C or another signal, for which dash runs no EXIT trap by
# itself; the exit status is 130 then. Further signals do not interrupt the command. A later call replaces it. A signal that only
# the script receives takes effect when the program that it runs has ended.
at_exit() {
  # shellcheck disable=SC2064 # the parameter is the command
  trap "trap '' HUP INT TERM; $1" EXIT
  trap 'exit 130' HUP INT TERM
}

# as_root COMMAND...: with sudo for other users than root.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    fail "root must run this, and there is no sudo: $*"
  fi
}

# Sets $swift.
find_swift() {
  for swift in "$(command -v swift || true)" "${SWIFT_HOME:-/opt/swift}/usr/bin/swift" /usr/local/bin/swift \
    "${HOME:-/root}/.local/share/swiftly/bin/swift" /usr/libexec/swift/bin/swift; do
    [ -x "$swift" ] || continue
    # OpenStack's client has the same name, and `swift --version` is not Swift's there.
    output=$("$swift" --version 2>&1) || why="$swift does not start: $output
  "
    version=$(printf '%s\n' "$output" | sed -n 's/.*Swift version \([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
    [ -n "$version" ] || continue
    # shellcheck disable=SC2086 # two words: major and minor
    set -- $version
    [ "$1" -gt 6 ] || { [ "$1" -eq 6 ] && [ "$2" -ge 2 ]; } && return
    why="$swift is Swift $1.$2. "
  done
  fail "${why:-}Swift 6.2 or newer is needed and was not found.
  Install it from https://www.swift.org/install/linux/ and either put it on PATH or unpack it in /opt/swift."
}

# Builds the program as it is installed, one file without Swift's libraries beside it. Sets $binary. $here is Mount.
build_release() {
  find_swift
  step "Building displayfs (release) with $swift; the first time takes some minutes" \
    "$swift" build --package-path "$here/.." -c release --static-swift-stdlib --disable-local-rpath \
    --product displayfs
  binary=$(cd "$here/.." && pwd)/.build/release/displayfs
}

# Sets $binary: the program that DISPLAYFS_BINARY names, or a fresh build.
choose_binary() {
  if [ -n "${DISPLAYFS_BINARY:-}" ]; then binary=$DISPLAYFS_BINARY; else build_release; fi
}

# unmount_lazily DIRECTORY: unmounts what is there, in the end even if it is in use.
unmount_lazily() {
  for attempt in 1 2 3 4 5 6 7 8 9 10; do
    findmnt -n "$1" >/dev/null || return 0
    umount "$1" 2>/dev/null || sleep 0.5
  done
  if findmnt -n "$1" >/dev/null; then umount -l "$1"; fi
}

# Has desktops notice that file types or icons below $prefix came or went.
refresh_desktop() {
  if [ -d "$prefix/share/mime/packages" ] && command -v update-mime-database >/dev/null; then
    as_root update-mime-database "$prefix/share/mime"
  fi
  icons=$prefix/share/icons/hicolor
  [ -d "$icons" ] || return 0
  # The icon theme specification: this is how programs see that a theme has changed.
  as_root touch "$icons"
  # A cache is brought up to date, not introduced: others who install icons here may not know of it.
  if [ -e "$icons/icon-theme.cache" ] && command -v gtk-update-icon-cache >/dev/null; then
    as_root gtk-update-icon-cache -q -t -f "$icons"
  fi
}

# install_packages NAME...: those of Debian or Ubuntu that are missing.
install_packages() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say 'This is neither Debian nor Ubuntu, so nothing is installed. These packages, or what they are called here, are needed:'
    say "$*"
    return 0
  fi
  missing=''
  for package; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || true
    [ "$state" = installed ] || missing="$missing $package"
  done
  if [ -z "$missing" ]; then
    say 'Everything needed is installed.'
    return 0
  fi
  say "Installing$missing"
  as_root apt-get update -qq || say '    The lists of packages are as old as they were.'
  # shellcheck disable=SC2086 # a list of words
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
}
