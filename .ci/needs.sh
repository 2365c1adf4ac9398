# What the scripts of this folder share: finding what a machine lacks, and installing it.
# To be sourced.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '\n== %s\n' "$*" >&2; }

stop() { printf '%s\n' "$*" >&2; exit 1; }

need_rust() {
  command -v cargo >/dev/null || stop "Rust is missing. Install it (https://rustup.rs), then run this again."
}

# as_root COMMAND...: runs it as root, or fails where that cannot be done without asking.
as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

# install WHAT OTHERS PACKAGE...: Debian's packages by apt where that can be done; else says the
# line to run, which for other systems is OTHERS.
install() {
  local what=$1 others=$2
  shift 2
  if ! command -v apt-get >/dev/null; then
    stop "$what is missing. Install it, then run this again:
$others"
  fi
  if ! as_root true 2>/dev/null; then
    stop "$what is missing. Run this line, then this script again:
  sudo apt-get update && sudo apt-get install -y --no-install-recommends $*${after:+ && $after}"
  fi
  say "installing $what ($*)"
  # Debian starts a service as soon as it is installed, unless a policy forbids it: the tests
  # start servers of their own, and 6379 is not ours to take.
  local policy=/usr/sbin/policy-rc.d
  if [ ! -e $policy ]; then
    trap 'as_root rm -f /usr/sbin/policy-rc.d' EXIT
    printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null
    as_root chmod +x $policy
  fi
  as_root apt-get update -qq >&2 \
    && as_root env DEBIAN_FRONTEND=noninteractive \
       apt-get install -y -qq --no-install-recommends "$@" >&2 \
    || stop "apt-get could not install: $*"
  if [ -n "$(trap -p EXIT)" ]; then
    as_root rm -f $policy
    trap - EXIT
  fi
}

need_redis() {
  command -v "${REDIS_SERVER:-redis-server}" >/dev/null && return
  [ -z "${REDIS_SERVER:-}" ] || stop "REDIS_SERVER names $REDIS_SERVER, which is not there."
  local after="sudo systemctl disable --now redis-server"
  install "redis-server" "  Fedora: sudo dnf install redis      Arch: sudo pacman -S redis
  Alpine: sudo apk add redis          macOS: brew install redis" redis-server
  if [ -d /run/systemd/system ]; then
    as_root systemctl disable --quiet --now redis-server 2>/dev/null || true
  fi
}

# For clients whose clock is wrong. It is a library for Linux.
need_faketime() {
  [ "$(uname -s)" = Linux ] || return 0
  local path
  for path in /usr/lib/*/faketime /usr/lib64/faketime /usr/lib/faketime /usr/local/lib/faketime; do
    [ ! -e "$path/libfaketimeMT.so.1" ] || return 0
  done
  local after=
  install "libfaketime" "  Fedora: sudo dnf install libfaketime   Arch: sudo pacman -S libfaketime
  Alpine: sudo apk add libfaketime" faketime
}

# JDK 17 or newer, with its compiler.
has_java() {
  local version
  version=$(javac -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p')
  [ "${version:-0}" -ge 17 ]
}

need_java() {
  local lacking=() after=
  if ! has_java; then
    lacking+=(openjdk-17-jdk-headless)
    # Newer Debians have newer ones only.
    if command -v apt-cache >/dev/null && ! apt-cache show openjdk-17-jdk-headless >/dev/null 2>&1; then
      as_root apt-get update -qq >&2 2>/dev/null || true
      apt-cache show openjdk-17-jdk-headless >/dev/null 2>&1 || lacking=(default-jdk-headless)
    fi
  fi
  command -v mvn >/dev/null || lacking+=(maven)
  [ ${#lacking[@]} = 0 ] && return
  install "Java (JDK 17 or newer) and Maven, for the tests beside real Redisson," \
    "  Fedora: sudo dnf install java-17-openjdk-devel maven   Arch: sudo pacman -S jdk17-openjdk maven
  Alpine: sudo apk add openjdk17 maven                   macOS: brew install openjdk@17 maven" \
    "${lacking[@]}"
  has_java || stop "The javac on the path is older than 17: put a newer one first."
}
