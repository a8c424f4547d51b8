#!/usr/bin/env bash
# Packs a built binary: a Debian package, a tarball, a list of all that is compiled in (CycloneDX),
# and checksums of them, in target/packages. Needs dpkg-deb and python3; builds nothing.
#   package.sh [BINARY]     target/dist/carillon, if it is there, else target/release/carillon
#   PACKAGE_LEVEL=1         compresses less, for tests
# The same binary and commit give the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=${1:-}
[ -n "$binary" ] || for each in target/dist/carillon target/release/carillon; do
  [ -x "$each" ] && binary=$each && break
done
[ -x "$binary" ] || { echo "package: there is no binary: make build, or make dist" >&2; exit 1; }

version=$("$binary" --version | awk '{ print $2 }')
arch=$(dpkg --print-architecture)
out=target/packages
# All files have this time: that of the commit.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y "$binary")
export SOURCE_DATE_EPOCH
root=$out/root
rm -rf "$out"
mkdir -p "$root/DEBIAN"

put() { # MODE SOURCE TARGET
  install -D -m "$1" "$2" "$root/$3"
}
share=$root/usr/share
put 755 "$binary" usr/bin/carillon
put 640 deploy/carillon.toml etc/carillon/carillon.toml
put 644 deploy/systemd/carillon.service usr/lib/systemd/system/carillon.service
put 644 deploy/systemd/carillon.sysusers usr/lib/sysusers.d/carillon.conf
put 644 deploy/systemd/carillon.tmpfiles usr/lib/tmpfiles.d/carillon.conf
put 644 deploy/prometheus/carillon.rules.yml usr/share/carillon/prometheus/carillon.rules.yml
put 644 deploy/grafana/carillon.json usr/share/carillon/grafana/carillon.json
put 644 LICENSE usr/share/doc/carillon/copyright
put 644 CHANGELOG.md usr/share/doc/carillon/changelog
gzip -9n "$share/doc/carillon/changelog"
mkdir -p "$share/bash-completion/completions" "$share/zsh/vendor-completions" \
  "$share/fish/vendor_completions.d" "$share/man/man1"
"$binary" completions bash >"$share/bash-completion/completions/carillon"
"$binary" completions zsh >"$share/zsh/vendor-completions/_carillon"
"$binary" completions fish >"$share/fish/vendor_completions.d/carillon.fish"
"$binary" manual "$share/man/man1"
gzip -9n "$share"/man/man1/*.1

# The newest version of the C library that it asks for.
libc=$(grep -aoE 'GLIBC_2\.[0-9]+' "$binary" | sort -Vu | tail -n 1)
libc=${libc#GLIBC_}
install -m 755 deploy/debian/postinst deploy/debian/prerm deploy/debian/postrm "$root/DEBIAN/"
echo /etc/carillon/carillon.toml >"$root/DEBIAN/conffiles"
size=$(du -sk --exclude=DEBIAN "$root" | cut -f1)
sed -e "s/@VERSION@/$version/" -e "s/@ARCH@/$arch/" -e "s/@SIZE@/$size/" \
  -e "s/@LIBC@/${libc:-2.31}/" deploy/debian/control >"$root/DEBIAN/control"
(cd "$root" && find etc usr -type f -print0 | sort -z | xargs -0 md5sum) >"$root/DEBIAN/md5sums"
chmod 644 "$root"/DEBIAN/{conffiles,control,md5sums}
find "$root" -type d -exec chmod 755 {} +
deb=carillon_${version}_$arch.deb
dpkg-deb --root-owner-group -Zxz "-z${PACKAGE_LEVEL:-6}" --build "$root" "$out/$deb" >/dev/null

# The same for any other Linux, under one directory.
name=carillon-$version-$(uname -m)-linux
mkdir -p "$out/$name"
cp -r "$root/usr/bin/carillon" deploy README.md LICENSE CHANGELOG.md "$out/$name/"
cp -r "$share/man/man1" "$out/$name/man1"
mkdir "$out/$name/completions"
cp "$share/bash-completion/completions/carillon" "$out/$name/completions/carillon.bash"
cp "$share/zsh/vendor-completions/_carillon" "$share/fish/vendor_completions.d/carillon.fish" \
  "$out/$name/completions/"
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
  -C "$out" -c "$name" | gzip "-${PACKAGE_LEVEL:-9}n" >"$out/$name.tar.gz"

python3 scripts/sbom.py "$version" >"$out/$name.cdx.json"
(cd "$out" && sha256sum "$deb" "$name.tar.gz" "$name.cdx.json" >SHA256SUMS)
rm -rf "${root:?}" "${out:?}/$name"
(cd "$out" && ls -l "$deb" "$name.tar.gz" "$name.cdx.json" SHA256SUMS | awk '{ print "  " $5, $9 }')
