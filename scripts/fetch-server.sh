#!/usr/bin/env bash
# fetch-server.sh FOLDER SUITE PACKAGE
#
# Unpacks a MySQL or MariaDB server, PACKAGE of the Debian release SUITE, with
# every library it needs, into FOLDER and leaves a launcher FOLDER/mysqld there.
# A complete FOLDER is left as it is.
#
# Nothing is installed and no root is needed: apt-get gets lists, a cache and an
# (almost) empty dpkg status of its own, and the packages are unpacked with
# dpkg-deb, so no maintainer script runs. The archive is the one this machine's
# own apt uses, and its signature is checked with Debian's keyring.
set -euo pipefail

root=$1 suite=$2 package=$3
work=$root.work
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

say() { echo "${package%%-*}: $*" >&2; }
die() { say "$*"; exit 1; }

[ -x "$root/mysqld" ] && exit 0
for tool in apt-get dpkg dpkg-deb flock timeout; do
  command -v "$tool" >/dev/null || die "cannot unpack Debian's packages: $tool is missing"
done
[ -r "$keyring" ] || die "cannot unpack Debian's packages: $keyring is missing"

mkdir -p "$(dirname "$root")"
exec 9>"$root.lock"
flock -w 600 9 || die "another run has been fetching $package for 10 minutes; remove $root.lock if it hangs"
[ -x "$root/mysqld" ] && exit 0

# The archive proper is what serves this machine's release under its plain name;
# -security and -updates are named differently.
codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
archive=$(apt-get indextargets --no-release-info --format '$(RELEASE)|$(REPO_URI)' 'Created-By: Packages' |
  sed -n "s/^$codename|//p" | head -n 1)
[ -n "$codename" ] && [ -n "$archive" ] || die "this machine's apt sources name no Debian archive"

rm -rf "$root" "$work"
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/apt/{lists,cache/archives}/partial "$work"/root/usr/{bin,sbin,lib,lib64}

echo "deb [signed-by=$keyring] $archive $suite main" >"$work/apt/sources.list"
# These serve maintainer scripts only, which do not run here.
for assumed in perl perl-base debconf install-info; do
  printf '%s\n' "Package: $assumed" 'Status: install ok installed' "Architecture: $(dpkg --print-architecture)" \
    'Multi-Arch: allowed' 'Version: 99' 'Maintainer: none' 'Description: assumed' ''
done >"$work/apt/status"
options=(
  -o Dir::Etc::sourcelist="$work/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
  -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null
  -o Dir::State="$work/apt" -o Dir::State::lists="$work/apt/lists" -o Dir::State::status="$work/apt/status"
  -o Dir::State::extended_states="$work/apt/extended_states"
  -o Dir::Cache="$work/apt/cache" -o Dir::Cache::archives="$work/apt/cache/archives"
  -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false
  -o Acquire::Retries=3 -o Acquire::http::Timeout=30 -o APT::Install-Recommends=false
  -o APT::Sandbox::User=root -o Debug::NoLocking=1 -o quiet=2
)
# The lock must not outlive this script through a child that hangs: 9>&-.
say "reading the package lists of Debian $suite (once per checkout)"
timeout 200 apt-get "${options[@]}" update >&2 9>&- || die "apt-get update failed"
say "downloading the server and its libraries"
timeout 400 apt-get "${options[@]}" -y --download-only install "$package" >&2 9>&- ||
  die "apt-get could not download $package"

say "unpacking"
# The merged-/usr links come first, and tar (unlike dpkg-deb -x) keeps them
# where a package still ships /lib.
for folder in bin sbin lib lib64; do ln -s "usr/$folder" "$work/root/$folder"; done
for archive in "$work"/apt/cache/archives/*.deb; do
  dpkg-deb --fsys-tarfile "$archive" | tar -x -C "$work/root" --keep-directory-symlink --no-same-owner \
    --exclude=./usr/share/doc --exclude=./usr/share/man --exclude=./usr/share/locale
done

# The unpacked C library is not the system's, so the server runs under
# the loader that came with it.
loader=$(cd "$work/root" && ls usr/lib/*/ld-linux*.so.* | head -n 1)
[ -n "$loader" ] && [ -x "$work/root/usr/sbin/mysqld" ] || die "the packages hold no mysqld or no loader for it"
cat >"$work/root/mysqld" <<LAUNCHER
#!/bin/sh
here=\$(cd "\$(dirname "\$0")" && pwd)
exec "\$here/$loader" --library-path "\$here/$(dirname "$loader")" "\$here/usr/sbin/mysqld" \\
  --no-defaults --basedir="\$here/usr" --plugin-dir="\$here/usr/lib/mysql/plugin" --lc-messages-dir="\$here/usr/share/mysql" "\$@"
LAUNCHER
chmod +x "$work/root/mysqld"
mv "$work/root" "$root"
