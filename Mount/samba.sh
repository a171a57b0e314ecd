# shellcheck shell=sh
# Sourced by the scripts that run a Samba server of their own on the loopback interface, beside steps.sh. All that it keeps lies in
# $work/state, its configuration is $work/smb.conf, and a function `client SHARE COMMANDS` of the script runs smbclient.

# shellcheck disable=SC2154 # set by the script
port=$((20000 + $$ % 20000))
failures=0
server=''

# The beginning of smb.conf: its global settings, to which the script may add more.
samba_settings() {
  mkdir "$work/state"
  cat <<END
[global]
  interfaces = 127.0.0.1/8
  bind interfaces only = yes
  smb ports = $port
  disable netbios = yes
  load printers = no
  log file = $work/log
  read only = no
  store dos attributes = yes
  map archive = no
END
  for setting in 'private dir' 'lock directory' 'state directory' 'cache directory' 'pid directory' 'ncalrpc dir'; do
    echo "  $setting = $work/state"
  done
}

# start_samba SHARE: starts the server, and waits until a client can list that share.
start_samba() {
  # It ends its process group when it is ended, so it gets one of its own.
  setsid smbd -s "$work/smb.conf" --foreground --no-process-group >"$work/output" 2>&1 &
  server=$!
  attempts=0
  until client "$1" ls >/dev/null 2>&1; do
    attempts=$((attempts + 1))
    [ "$attempts" -lt 150 ] || { cat "$work/output"; fail 'the Samba server does not respond'; }
    sleep 0.2
  done
}

# Ends the server if it was started, even if it does not reply yet.
end_samba() {
  [ -n "$server" ] || return 0
  kill "$server" 2>/dev/null || true
  wait "$server" 2>/dev/null || true
}

# check TEXT EXPECTED ACTUAL: prints what holds, and counts what does not in $failures.
check() {
  if [ "$2" = "$3" ]; then
    say "    $1: $3"
  else
    say "    $1: $3, not $2"
    failures=$((failures + 1))
  fi
}
