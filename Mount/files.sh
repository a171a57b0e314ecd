# shellcheck shell=sh
# Sourced by install, uninstall and package: what is installed, and where.

# Below the prefix: the program that is to have the capability to register files with the kernel.
passthrough_helper=libexec/displayfs/displayfs-passthrough

# let_register PROGRAM: gives it that capability, or where file capabilities cannot be had the rights of root, of which it
# keeps no other.
let_register() {
  PATH=$PATH:/sbin:/usr/sbin
  as_root setcap cap_sys_admin=ep "$1" 2>/dev/null || as_root chmod u+s "$1"
}

# build_helper NAME OUTPUT: not by Swift, which would link its libraries to a program that has more rights than its user, or none.
build_helper() {
  compiler=$(command -v cc || command -v gcc || true)
  if [ -z "$compiler" ]; then find_swift; compiler=${swift%/*}/clang; fi
  "$compiler" -std=c11 -O2 -Wall -fPIE -pie -fstack-protector-strong -D_FORTIFY_SOURCE=2 -Wl,-z,relro,-z,now -s -o "$2" \
    "$here/../Sources/$1/main.c"
}

# each_file: calls `file MODE SOURCE TARGET` for each. TARGET is relative to the prefix; in a file that ends in .in the
# paths of the installation are yet to be filled in. $here is Mount, $built holds what the program itself has written.
each_file() {
  file 755 "$built/displayfs" bin/displayfs
  file 755 "$built/displayfs-passthrough" "$passthrough_helper"
  file 755 "$built/displayfs-picture" libexec/displayfs/displayfs-picture
  file 644 "$here/file-managers/displayfs.thumbnailer.in" share/thumbnailers/displayfs.thumbnailer
  for page in "$here/../man/"*.[1-8]; do
    file 644 "$page" "share/man/man${page##*.}/${page##*/}"
  done
  file 644 "$built/displayfs.bash" share/bash-completion/completions/displayfs
  file 644 "$built/_displayfs" "share/zsh/${zsh_completions:-site-functions}/_displayfs"
  file 644 "$built/displayfs.fish" share/fish/vendor_completions.d/displayfs.fish
  for kind in system user; do
    file 644 "$here/displayfs@.service.in" "lib/systemd/$kind/displayfs@.service"
  done
  file 644 "$here/mime/displayfs.xml" share/mime/packages/displayfs.xml
  for icon in "$here/icons/application-"*.svg; do
    file 644 "$icon" "share/icons/hicolor/scalable/mimetypes/${icon##*/}"
  done
  file 644 "$here/icons/displayfs.svg" share/icons/hicolor/scalable/apps/displayfs.svg
  file 644 "$here/displayfs.metainfo.xml" share/metainfo/local.displayfs.displayfs.metainfo.xml
  file 755 "$here/file-managers/action.in" libexec/displayfs/file-manager-action
  for manager in nautilus thunarx; do
    file 644 "$here/file-managers/menu.py.in" "share/$manager-python/extensions/displayfs.py"
  done
  for action in contents path; do
    file 644 "$here/file-managers/dolphin-$action.desktop.in" "share/kio/servicemenus/displayfs-$action.desktop"
    file 644 "$here/file-managers/pcmanfm-$action.desktop.in" "share/file-manager/actions/displayfs-$action.desktop"
  done
}

# installed_prefix ARGUMENT...: sets $prefix to what follows --prefix, by default /usr/local.
installed_prefix() {
  prefix=/usr/local
  case "$#${1:-}" in
    0) ;;
    2--prefix) prefix=$2 ;;
    *) fail "usage: Mount/$(basename "$0") [--prefix DIRECTORY]" ;;
  esac
}

# Puts the program and what it writes itself into a temporary directory. Sets $built, which goes when the script ends.
build_files() {
  built=$(mktemp -d "${TMPDIR:-/tmp}/displayfs-files.XXXXXX")
  at_exit 'rm -rf "$built"'
  step 'Installing what is missing' "$here/setup"
  choose_binary
  cp "$binary" "$built/displayfs"
  for helper in displayfs-passthrough displayfs-picture; do build_helper "$helper" "$built/$helper"; done
  # It is sourced, and no program.
  "$built/displayfs" completions bash | sed '1{/^#!/d}' >"$built/displayfs.bash"
  "$built/displayfs" completions zsh >"$built/_displayfs"
  "$built/displayfs" completions fish >"$built/displayfs.fish"
}

# fill_in PREFIX TARGET: from standard input to standard output.
fill_in() {
  case $2 in
    *thunarx*) module=Thunarx ;;
    *) module=Nautilus ;;
  esac
  # What the types of packages are called is said in one place.
  types=$(sed -n 's/.*<mime-type type="\([^"]*\)".*/\1;/p' "$here/mime/displayfs.xml" | tr -d '\n')
  sed "s|@prefix@|$1|g; s|@module@|$module|g; s|@types@|$types|g"
}

# place DESTINATION PREFIX MODE SOURCE TARGET: installs one file below DESTINATION.
place() {
  target=$1$2/$5
  case $4 in
    *.in)
      fill_in "$2" "$5" <"$4" >"$built/filled"
      as_root install -D -m "$3" "$built/filled" "$target"
      ;;
    *) as_root install -D -m "$3" "$4" "$target" ;;
  esac
}
