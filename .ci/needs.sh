# What the scripts of this folder share: finding what a machine lacks, and installing it.
# To be sourced.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '\n== %s\n' "$*" >&2; }

stop() { printf '%s\n' "$*" >&2; exit 1; }

need_rust() {
  command -v cargo >/dev/null || stop "Rust is missing. Install it (https://rustup.rs), then run this again."
}

# install WHAT PACKAGE...: by apt where that can be done, else say the line to run.
install() {
  local what=$1; shift
  local become=()
  if [ "$(id -u)" != 0 ]; then
    become=(sudo)
    sudo -n true 2>/dev/null || become=()
  fi
  if ! command -v apt-get >/dev/null; then
    stop "$what is missing. Install it with this system's package manager (Debian's packages: $*), then run this again."
  fi
  if [ "$(id -u)" != 0 ] && [ ${#become[@]} = 0 ]; then
    stop "$what is missing. Run this line, then this script again:
  sudo apt-get update && sudo apt-get install -y --no-install-recommends $*"
  fi
  say "installing $what ($*)"
  # Debian starts a service as soon as it is installed, unless a policy forbids it: the tests
  # start servers of their own, and 6379 is not ours to take.
  local policy=/usr/sbin/policy-rc.d mine=
  if [ ! -e $policy ]; then
    mine=yes
    printf '#!/bin/sh\nexit 101\n' | "${become[@]}" tee $policy >/dev/null
    "${become[@]}" chmod +x $policy
  fi
  local failed=
  "${become[@]}" apt-get update -qq >&2 \
    && "${become[@]}" env DEBIAN_FRONTEND=noninteractive \
       apt-get install -y -qq --no-install-recommends "$@" >&2 || failed=yes
  [ -z "$mine" ] || "${become[@]}" rm -f $policy
  [ -z "$failed" ] || stop "apt-get could not install: $*"
}

need_redis() {
  local server=${REDIS_SERVER:-redis-server}
  command -v "$server" >/dev/null && return
  [ -z "${REDIS_SERVER:-}" ] || stop "REDIS_SERVER names $REDIS_SERVER, which is not there."
  install "redis-server" redis-server
  if command -v systemctl >/dev/null && [ -d /run/systemd/system ]; then
    systemctl disable --quiet redis-server 2>/dev/null || true
  fi
}

need_java() {
  local lacking=()
  command -v javac >/dev/null || lacking+=(openjdk-17-jdk-headless)
  command -v mvn >/dev/null || lacking+=(maven)
  [ ${#lacking[@]} = 0 ] || install "Java (JDK 17) and Maven, for the tests beside real Redisson" "${lacking[@]}"
}
