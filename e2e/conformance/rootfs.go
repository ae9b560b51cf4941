package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// programs are what the images hold of Go modules, by where they lie: bin/conformance
// has those of the suite.
func programs(bin string) map[string]string {
	return map[string]string{
		"agnhost/agnhost":                   filepath.Join(bin, "conformance", "agnhost"),
		"nonewprivs/usr/local/bin/nnp":      filepath.Join(bin, "conformance", "nonewprivs"),
		"sample-apiserver/sample-apiserver": filepath.Join(bin, "conformance", "sample-apiserver"),
		"etcd/usr/local/bin/etcd":           filepath.Join(bin, "etcd"),
		"pause/pause":                       filepath.Join(bin, "containerd", "pause"),
	}
}

// makeFolders fills a folder for each layer. busybox is where the program of that name
// is kept.
func makeFolders(ctx context.Context, bin, busybox, work string) error {
	for to, from := range programs(bin) {
		if err := install(from, filepath.Join(work, to), 0o755); err != nil {
			return err
		}
	}
	// What a process without new privileges must not become.
	if err := os.Chmod(filepath.Join(work, "nonewprivs/usr/local/bin/nnp"), 0o755|fs.ModeSetuid); err != nil {
		return err
	}
	if err := makeBusybox(ctx, busybox, filepath.Join(work, "source")); err != nil {
		return fmt.Errorf("busybox: %w", err)
	}
	if err := skeleton(ctx, busybox, filepath.Join(work, "small")); err != nil {
		return err
	}
	if err := makeDebian(ctx, busybox, work); err != nil {
		return err
	}
	if err := makeWeb(ctx, busybox, work); err != nil {
		return err
	}
	return makeAgnhost(ctx, filepath.Join(bin, "conformance", "agnhost"), "debian", work)
}

// makeDebian has what Alpine's packages bring to agnhost, and glibc's own tools.
func makeDebian(ctx context.Context, busybox, work string) error {
	root := filepath.Join(work, "debian")
	if err := unpack(ctx, work, root, "bash", "bind9-dnsutils", "curl", "netcat-openbsd", "iproute2", "iperf", "util-linux", "libc-bin", "hostname"); err != nil {
		return err
	}
	if err := link("nc.openbsd", filepath.Join(root, "bin/nc")); err != nil {
		return err
	}
	if err := skeleton(ctx, busybox, root); err != nil {
		return err
	}
	return errors.Join(
		link("/usr/bin/iperf", filepath.Join(root, "usr/local/bin/iperf")),
		link("busybox", filepath.Join(root, "bin/sh"))) // as in Alpine
}

// nginxConfig serves one page and writes its logs where a container's go.
const nginxConfig = `worker_processes 1;
error_log /var/log/nginx/error.log notice;
pid /run/nginx.pid;
events { worker_connections 512; }
http {
  include /etc/nginx/mime.types;
  default_type application/octet-stream;
  access_log /var/log/nginx/access.log;
  server {
    listen 80;
    server_name localhost;
    location / { root /usr/share/nginx/html; index index.html; }
  }
}
`

// makeWeb has nginx.
func makeWeb(ctx context.Context, busybox, work string) error {
	root := filepath.Join(work, "web")
	if err := unpack(ctx, work, root, "nginx"); err != nil {
		return err
	}
	if err := skeleton(ctx, busybox, root); err != nil {
		return err
	}
	for _, dir := range []string{"usr/share/nginx/html", "var/log/nginx", "var/lib/nginx", "etc/nginx/conf.d"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	page := "<!DOCTYPE html>\n<html><head><title>Welcome to nginx!</title></head>\n<body><h1>Welcome to nginx!</h1></body></html>\n"
	return errors.Join(
		link("/dev/stdout", filepath.Join(root, "var/log/nginx/access.log")),
		link("/dev/stderr", filepath.Join(root, "var/log/nginx/error.log")),
		os.WriteFile(filepath.Join(root, "usr/share/nginx/html/index.html"), []byte(page), 0o644),
		os.WriteFile(filepath.Join(root, "etc/nginx/nginx.conf"), []byte(nginxConfig), 0o644))
}

// makeAgnhost has the files beside agnhost, of the module that it is built from. system
// is the layer below it.
func makeAgnhost(ctx context.Context, program, system, work string) error {
	out, err := exec.CommandContext(ctx, "go", "version", "-m", program).Output()
	if err != nil {
		return fmt.Errorf("version of agnhost: %w", err)
	}
	found := regexp.MustCompile(`k8s\.io/kubernetes\s+(v\S+)`).FindSubmatch(out)
	if found == nil {
		return errors.New("agnhost does not say of which version of k8s.io/kubernetes it is")
	}
	out, err = exec.CommandContext(ctx, "go", "env", "GOMODCACHE").Output()
	if err != nil {
		return err
	}
	sources := filepath.Join(strings.TrimSpace(string(out)), "k8s.io/kubernetes@"+string(found[1]), "test/images")
	root := filepath.Join(work, "agnhost")
	for _, dir := range []string{"uploads", "etc", "home/user-defined-in-image"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	for _, name := range []string{"localhost.crt", "localhost.key"} {
		if err := install(filepath.Join(sources, "agnhost/porter", name), filepath.Join(root, name), 0o644); err != nil {
			return err
		}
	}
	for _, pet := range []string{"kitten", "nautilus"} {
		files, err := filepath.Glob(filepath.Join(sources, pet, "html", "*"))
		if err != nil || len(files) == 0 {
			return fmt.Errorf("files of %s: %d found: %w", pet, len(files), err)
		}
		for _, file := range files {
			if err := install(file, filepath.Join(work, pet, filepath.Base(file)), 0o644); err != nil {
				return err
			}
		}
	}
	return errors.Join(
		// base-files is left out, so there is no other. Upstream's agnhost stands on Alpine, and
		// a test of image volumes looks for its name, to see a file of a lower layer.
		os.WriteFile(filepath.Join(root, "etc/os-release"), []byte("PRETTY_NAME=\"Debian packages in the place of Alpine Linux\"\n"), 0o644),
		link("agnhost", filepath.Join(root, "agnhost-2")),
		extend(filepath.Join(work, system, "etc/passwd"), filepath.Join(root, "etc/passwd"), "user-defined-in-image:x:1000:1000::/home/user-defined-in-image:/bin/sh\n"),
		extend(filepath.Join(work, system, "etc/group"), filepath.Join(root, "etc/group"), "user-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n"))
}

// leftOut are packages that a container does without, of what others depend on.
var leftOut = strings.Fields(`adduser base-files cdebconf debconf debianutils dpkg gawk mawk original-awk
	install-info tar gcc-12-base libaudit-common libdebian-installer4 libnewt0.52 libslang2 libtextwrap1 libelogind0
	libmpfr6 libsigsegv2 libtirpc-common passwd login perl-base init-system-helpers lsb-base sysvinit-utils
	util-linux-extra iproute2-doc libsystemd-shared mime-support media-types`)

// unpack puts Debian packages, with what they depend on, into a folder.
func unpack(ctx context.Context, work, root string, packages ...string) error {
	args := append([]string{"depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks", "--no-replaces", "--no-enhances"}, packages...)
	out, err := exec.CommandContext(ctx, "apt-cache", args...).Output()
	if err != nil {
		return fmt.Errorf("dependencies of %s: %w; apt-get update first", packages, err)
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		name := strings.TrimSpace(line)
		// Names at the margin are packages; others are how they are related, or in <>.
		if name != "" && line[0] != ' ' && line[0] != '<' && !slices.Contains(leftOut, name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	debs := root + ".debs"
	if err := os.MkdirAll(debs, 0o755); err != nil {
		return err
	}
	if err := command(ctx, debs, "apt-get", append([]string{"download", "-q"}, names...)...); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(debs, "*.deb"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := command(ctx, work, "dpkg", "-x", file, root); err != nil {
			return err
		}
	}
	for _, pattern := range []string{"usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/lintian", "usr/share/bash-completion",
		"usr/share/info", "usr/share/bug", "etc/init.d", "etc/cron.*", "etc/logrotate.d", "etc/systemd", "var/cache", "var/lib",
		"etc/nginx/sites-*", "etc/nginx/modules-enabled"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return err
		}
		for _, path := range found {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeBusybox builds busybox from its source without Debian's patches: with them its
// shell drops variables such as data-1 from the environment of what it starts, and
// takes its own nc for the real one.
func makeBusybox(ctx context.Context, program, work string) error {
	if _, err := os.Stat(program); err == nil {
		return nil
	}
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	const script = `set -eu
mkdir -p apt/sources.list.d lists/partial
for d in trusted.gpg.d apt.conf.d preferences.d; do if [ -e /etc/apt/$d ]; then cp -r /etc/apt/$d apt/; fi; done
sed 's/^Types: deb$/Types: deb-src/' /etc/apt/sources.list.d/debian.sources >apt/sources.list.d/source.sources
options="-qq -o Dir::Etc=$PWD/apt -o Dir::State::lists=$PWD/lists -o Dir::Cache=$PWD/cache"
apt-get $options update
apt-get $options source --download-only busybox
tar xf busybox_*.orig.tar.*
tar xf busybox_*.debian.tar.*
cd busybox-*/
sed -E 's/^CONFIG_(FEATURE_PREFER_APPLETS|FEATURE_SH_STANDALONE|SELINUX)=y/# CONFIG_\1 is not set/' ../debian/config/pkg/static >.config
{ yes "" || true; } | make oldconfig >/dev/null
make -j"$(nproc)" >/dev/null
`
	if err := command(ctx, work, "sh", "-c", script); err != nil {
		return err
	}
	built, err := filepath.Glob(filepath.Join(work, "busybox-*", "busybox"))
	if err != nil || len(built) != 1 {
		return fmt.Errorf("built %q: %w", built, err)
	}
	return install(built[0], program, 0o755)
}

// skeleton adds folders and accounts of a small system to a folder, and busybox for
// each command that it has not.
func skeleton(ctx context.Context, busybox, root string) error {
	for _, dir := range strings.Fields("bin sbin usr/bin usr/sbin usr/local/bin etc home lib opt proc root run srv sys dev var/log var/run mnt media tmp var/tmp") {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	all := fs.ModeSticky | 0o777
	if err := errors.Join(os.Chmod(filepath.Join(root, "tmp"), all), os.Chmod(filepath.Join(root, "var/tmp"), all), os.Chmod(filepath.Join(root, "root"), 0o700)); err != nil {
		return err
	}
	if err := install(busybox, filepath.Join(root, "bin/busybox"), 0o755); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, busybox, "--list").Output()
	if err != nil {
		return fmt.Errorf("commands of busybox: %w", err)
	}
	for _, name := range strings.Fields(string(out)) {
		if slices.Contains([]string{"busybox", "dpkg", "dpkg-deb", "rpm", "rpm2cpio"}, name) || has(root, name) {
			continue
		}
		if err := os.Symlink("busybox", filepath.Join(root, "bin", name)); err != nil {
			return err
		}
	}
	if _, err := os.Lstat(filepath.Join(root, "usr/bin/env")); err != nil {
		if err := os.Symlink("/bin/busybox", filepath.Join(root, "usr/bin/env")); err != nil {
			return err
		}
	}
	var errs []error
	for name, text := range map[string]string{
		"passwd": "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1:daemon:/usr/sbin:/bin/false\nbin:x:2:2:bin:/bin:/bin/false\n" +
			"mail:x:8:8:mail:/var/spool/mail:/bin/false\nwww-data:x:33:33:www-data:/var/www:/bin/false\nnobody:x:65534:65534:nobody:/home:/bin/false\n",
		"group":         "root:x:0:\ndaemon:x:1:\nbin:x:2:\ntty:x:5:\nmail:x:8:\nwww-data:x:33:\nnogroup:x:65534:\n",
		"shadow":        "root:*:::::::\n",
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nnetworks: files\nprotocols: files\nservices: files\n",
	} {
		errs = append(errs, os.WriteFile(filepath.Join(root, "etc", name), []byte(text), 0o644))
	}
	return errors.Join(errs...)
}

func has(root, name string) bool {
	for _, dir := range []string{"bin", "usr/bin", "sbin", "usr/sbin"} {
		if _, err := os.Lstat(filepath.Join(root, dir, name)); err == nil {
			return true
		}
	}
	return false
}

// command runs one; its output is in the error.
func command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		said := out.Bytes()
		return fmt.Errorf("%s: %w: %s", name, err, said[max(0, len(said)-2000):])
	}
	return nil
}

// install copies a file and makes the folders above it.
func install(from, to string, mode fs.FileMode) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return write(to, data, mode)
}

// extend copies a file with more at its end.
func extend(from, to, more string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return write(to, append(data, more...), 0o644)
}

func write(path string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, mode)
}

// link replaces what is at a path by a link.
func link(target, path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(target, path)
}
