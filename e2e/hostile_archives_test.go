package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"pintle.dev/pintle/kernel/plugin/sealed"
)

// member is an entry of a tarball that is made by hand.
type member struct {
	tar.Header
	data []byte
}

func plain(name string, data []byte) member {
	return member{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755}, data}
}

func device(kind byte, name, link string) member {
	return member{tar.Header{Typeflag: kind, Name: name, Linkname: link, Mode: 0o666, Devmajor: 1, Devminor: 3}, nil}
}

// tarball writes members as tar, compressed.
func tarball(t *testing.T, members ...member) []byte {
	t.Helper()
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	for _, m := range members {
		m.Size = int64(len(m.data))
		if err := w.WriteHeader(&m.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(m.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// members are those of a tarball.
func members(t *testing.T, path string) []member {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var out []member
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, member{*h, content})
	}
}

// TestHostileArchives: packages that climb out of their folder, link, hold
// devices, unpack without end, are cut, changed, signed by others or no longer,
// and a bundle that is changed after it was installed, each given to pintle plugin
// install beside a kernel that goes on placing pods. Each is refused in one line
// with exit code 3; nothing of it is installed or left.
func TestHostileArchives(t *testing.T) {
	for _, form := range []string{"wasm", "process"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			hostileArchives(t, form)
		})
	}
}

func hostileArchives(t *testing.T, form string) {
	work := t.TempDir()
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+w", work).Run() })
	data, packages := filepath.Join(work, "data"), filepath.Join(work, "packages")
	if err := os.Mkdir(packages, 0o755); err != nil {
		t.Fatal(err)
	}
	built := versioned(t, "1.0.0", form)
	artefact := map[string]string{"wasm": "versioned.wasm", "process": "versioned"}[form]
	file := func(name string) []byte {
		t.Helper()
		content, err := os.ReadFile(filepath.Join(built, name))
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	manifest, err := sealed.Read(built) // as it is packed, with digests
	if err != nil {
		t.Fatal(err)
	}
	program := file(artefact)
	whole := []member{plain("manifest.yaml", manifest), plain(artefact, program)}
	with := func(more ...member) []byte { return tarball(t, append(append([]member{}, whole...), more...)...) }
	pinned := digestOf(t, filepath.Join(built, artefact))
	naming := func(path, digest string) []byte {
		text := strings.Replace(string(manifest), "path: "+artefact+"\n", "path: "+path+"\n", 1)
		if text == string(manifest) && path != artefact {
			t.Fatalf("no path in %s", text)
		}
		return []byte(strings.Replace(text, pinned, digest, 1))
	}
	changed := bytes.Clone(program)
	changed[len(changed)/2] ^= 1

	for _, name := range []string{"author", "stranger"} {
		pintle(t, 0, "plugin", "keygen", "--prefix", filepath.Join(packages, name))
	}
	sign := func(name, dir, key string, more ...string) string {
		t.Helper()
		path := filepath.Join(packages, name+".tar.gz")
		pintle(t, 0, append([]string{"plugin", "package", dir, "-f", path, "--sign-key", filepath.Join(packages, key+".key")}, more...)...)
		return path
	}
	byAuthor := sign("by-author", built, "author")
	expired := sign("expired", built, "author", "--expires", "1s")
	byStranger := sign("by-stranger", built, "stranger")
	trusting := []string{"--key", filepath.Join(packages, "author.pub")}
	// The author's signature, and another package around it.
	var moved []member
	for _, m := range members(t, byAuthor) {
		if m.Name == "manifest.yaml" {
			m.data = bytes.Replace(m.data, []byte("version: 1.0.0"), []byte("version: 1.0.1"), 1)
		}
		moved = append(moved, m)
	}
	signed, err := os.ReadFile(byAuthor)
	if err != nil {
		t.Fatal(err)
	}

	config := filepath.Join(work, "pintle.yaml")
	hostileConfiguration(t, config, packages, "", "")
	replace(t, config, "[HostName, PodFitsResources]}]}", "[HostName, PodFitsResources]}, {schedulerName: asks, predicates: [HostName]}]}")
	e := minimal(t, config, data)
	e.placer(t)
	e.ask(t, "first", "default-scheduler")
	e.placed(t, "first")
	before := e.counts(t)

	folder := filepath.Join(packages, "linked")
	if err := os.CopyFS(folder, os.DirFS(built)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(filepath.Join(folder, artefact), filepath.Join(work, "elsewhere")), os.Symlink(filepath.Join(work, "elsewhere"), filepath.Join(folder, artefact))); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		name    string
		archive []byte
		source  string // in the place of archive
		more    []string
		says    string
	}{
		{name: "climbs out", archive: with(plain("../../../../evil", program)), says: "leads out of the package"},
		{name: "climbs out below", archive: with(plain("a/../../evil", program)), says: "leads out of the package"},
		{name: "absolute", archive: with(plain(filepath.Join(work, "evil"), program)), says: "is absolute"},
		{name: "manifest climbs out", archive: tarball(t, plain("manifest.yaml", naming("../../../../../bin/sh", digestOf(t, "/bin/sh")))), says: "want a path inside the bundle's folder"},
		{name: "artefact is a link", archive: tarball(t, plain("manifest.yaml", naming(artefact, digestOf(t, "/bin/sh"))), device(tar.TypeSymlink, artefact, "/bin/sh")), says: "is a symbolic link"},
		{name: "folder is a link", archive: tarball(t, whole[0], device(tar.TypeSymlink, "lib", work), plain("lib/evil", program), whole[1]), says: "is a symbolic link"},
		{name: "hard link", archive: with(device(tar.TypeLink, "passwd", "/etc/passwd")), says: "is a hard link"},
		{name: "folder with a link", source: folder, says: "is a symbolic link"},
		{name: "device", archive: with(device(tar.TypeChar, "evil", "")), says: `entry "evil" is a device`},
		{name: "disk", archive: with(device(tar.TypeBlock, "evil", "")), says: "is a device"},
		{name: "pipe", archive: with(device(tar.TypeFifo, "evil", "")), says: "is a pipe"},
		{name: "bomb", archive: tarball(t, whole[0], plain("evil", make([]byte, 256<<20)), whole[1]), says: "it unpacks to more than 100 times its size"},
		{name: "cut", archive: with()[:len(program)/8], says: "it is damaged or was cut short"},
		{name: "truncated", archive: tarball(t, whole[0], plain(artefact, program[:len(program)/2])), says: pinned},
		{name: "corrupted", archive: tarball(t, whole[0], plain(artefact, changed)), says: pinned},
		{name: "empty artefact", archive: tarball(t, whole[0], plain(artefact, nil)), says: pinned},
		{name: "twice", archive: with(plain("./"+artefact, changed)), says: "twice"},
		{name: "not signed", archive: with(), more: trusting, says: "it has no signature"},
		{name: "foreign signature", source: byStranger, more: trusting, says: "its signature is by none of the 1 known keys"},
		{name: "signature of another", archive: tarball(t, moved...), more: trusting, says: "ask its author for the package that was signed"},
		{name: "expired", source: expired, more: trusting, says: "expired at"},
		{name: "signed and cut", archive: signed[:len(signed)-9], more: trusting, says: "it is damaged or was cut short"},
	} {
		t.Run(c.name, func(t *testing.T) {
			source := c.source
			if source == "" {
				source = filepath.Join(packages, "hostile.tar.gz")
				if err := os.WriteFile(source, c.archive, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			// One of a second may just live.
			eventually(t, func(context.Context) error {
				r, code := e.plugin(t, append([]string{"verify", source, "--data", data}, c.more...)...)
				if code != 3 {
					return fmt.Errorf("verify ends with %d: %s%s", code, r.stdout, r.stderr)
				}
				return nil
			})
			r, code := e.plugin(t, append([]string{"install", source, "--data", data, "--enable", "--profile", "asks"}, c.more...)...)
			if code != 3 || !strings.Contains(r.stderr, c.says) || strings.Count(r.stderr, "\n") != 1 || r.stdout != "" {
				t.Errorf("install ends with %d, want 3 and one line with %q:\n%s%s", code, c.says, r.stdout, r.stderr)
			}
			pod := fmt.Sprint("beside-", i)
			e.ask(t, pod, "default-scheduler")
			e.placed(t, pod)
		})
	}
	t.Run("nothing is left", func(t *testing.T) {
		err := filepath.WalkDir(work, func(path string, d fs.DirEntry, err error) error {
			if err == nil && (strings.HasPrefix(d.Name(), "evil") || strings.HasPrefix(d.Name(), ".stage-")) {
				t.Error(path)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		if found, err := os.ReadDir(filepath.Join(data, "catalog", "sha256")); err != nil && !errors.Is(err, fs.ErrNotExist) || len(found) > 0 {
			t.Errorf("in the catalog: %v, %v", found, err)
		}
		if _, err := os.Stat(filepath.Join(work, "plugins.lock")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("there is a lock file: %v", err)
		}
		if r := e.try(t, "get", "plugin", "Picky"); !strings.Contains(r.stderr, "NotFound") {
			t.Errorf("Picky is there: %s%s", r.stdout, r.stderr)
		}
	})
	t.Run("changed after it was installed", func(t *testing.T) {
		var got struct{ Directory string }
		e.pintle(t, &got, append([]string{"plugin", "install", byAuthor, "--data", data, "--enable", "--profile", "asks"}, trusting...)...).must(t)
		e.ask(t, "answered", "asks")
		e.placed(t, "answered")
		// In the place of what runs, which nobody can write.
		path := filepath.Join(got.Directory, artefact)
		if err := errors.Join(os.Chmod(got.Directory, 0o755), os.WriteFile(path+".new", changed, 0o755), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
		contains(t, pintle(t, 3, "plugin", "verify", "versioned", "--data", data), digestOf(t, path), pinned, "install it again")
		// It goes on, and what took its place is not started: not for a change,
		// and not after its end.
		r := e.try(t, "patch", "plugin", "Picky", "--type=merge", "-p", `{"spec":{"timeout":"2s"}}`)
		refusal := func(context.Context) error {
			out := r.stderr + e.kubectl(t, "get", "plugin", "Picky", "-o", "wide")
			if !strings.Contains(out, "has digest "+digestOf(t, path)) {
				return fmt.Errorf("no word of another digest: %s%s", r.stdout, out)
			}
			return nil
		}
		eventually(t, refusal)
		e.ask(t, "still", "asks")
		e.placed(t, "still")
		if form == "process" {
			for _, line := range processesOf(filepath.Join(data, "catalog")) {
				pid, err := strconv.Atoi(strings.Fields(line)[0])
				if err != nil {
					t.Fatal(err)
				}
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
					t.Error(err)
				}
			}
			eventually(t, func(context.Context) error {
				if out := e.kubectl(t, "get", "plugin", "Picky", "-o", "jsonpath={.status.state} {.status.message}"); !strings.HasPrefix(out, "Failed") || !strings.Contains(out, "has digest "+digestOf(t, path)) {
					return fmt.Errorf("plugin Picky: %s", out)
				}
				return nil
			})
			e.ask(t, "refused", "asks")
			e.refused(t, "refused", "plugin Picky is not available")
		}
		e.ask(t, "beside-changed", "default-scheduler")
		e.placed(t, "beside-changed")
		// The package brings back what was there.
		pintle(t, 0, append([]string{"plugin", "install", byAuthor, "--data", data}, trusting...)...)
		pintle(t, 0, "plugin", "verify", "versioned", "--data", data)
		e.kubectl(t, "patch", "plugin", "Picky", "--type=merge", "-p", `{"spec":{"timeout":"3s"}}`)
		e.ask(t, "healed", "asks")
		e.placed(t, "healed")
	})
	pintle(t, 0, "plugin", "remove", "versioned", "--data", data)
	e.ask(t, "last", "default-scheduler")
	e.placed(t, "last")
	e.returnsTo(t, before, filepath.Join(data, "catalog"))
	e.stop(t)
}
