package catalog

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pintle.dev/pintle/kernel/plugin/manifest"
)

// entry is one of a tarball made by hand.
type entry struct {
	tar.Header
	text string
}

func regular(name, text string) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, text}
}

func special(kind byte, name, link string) entry {
	return entry{tar.Header{Typeflag: kind, Name: name, Linkname: link, Mode: 0o644}, ""}
}

func tarOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		e.Size = int64(len(e.text))
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// goodManifest pins a module and a process.
func goodManifest(more string) string {
	return "apiVersion: kernel.pintle.dev/v1alpha1\nkind: PluginManifest\nname: quiet\nversion: 1.0.0\nplugins:\n- {name: Quiet, kind: predicate}\nartifacts:\n" +
		"  wasm: {path: quiet.wasm, digest: " + digestOf([]byte(emptyModule)) + "}\n" + more
}

var good = []entry{regular("manifest.yaml", goodManifest("")), regular("quiet.wasm", emptyModule)}

func with(more ...entry) []entry { return append(append([]entry{}, good...), more...) }

// openBytes opens a tarball and returns what it put where.
func openBytes(t testing.TB, data []byte, l *limits) (*Package, error) {
	t.Helper()
	p, err := Open(t.Context(), Standard, t.TempDir(), SourceOptions{Stdin: bytes.NewReader(data), limits: l})
	if err == nil {
		t.Cleanup(func() {
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return p, err
}

// laughs is a small manifest that is large when its aliases are written out.
func laughs() string {
	return goodManifest("") + "rules:\n- &r {resources: [x], verbs: [" + strings.Repeat("v, ", 5000) + "v]}\n" + strings.Repeat("- *r\n", 20000)
}

// TestHostileTarballs: each is refused in one line, and nothing is left or
// written outside.
func TestHostileTarballs(t *testing.T) {
	sparse := regular("quiet", "x")
	sparse.Format, sparse.PAXRecords = tar.FormatPAX, map[string]string{"PINTLE.test": "x"}
	setuid := regular("bin/tool", "x")
	setuid.Mode = 0o6777
	for name, c := range map[string]struct {
		entries []entry
		says    string
	}{
		"climbs out":                {with(regular("../evil", "x")), "leads out of the package"},
		"climbs out in the middle":  {with(regular("a/../../evil", "x")), "leads out of the package"},
		"absolute":                  {with(regular("/tmp/evil", "x")), "absolute"},
		"backslashes":               {with(regular(`..\evil`, "x")), "printable"},
		"control letters":           {with(regular("a\nb", "x")), "printable"},
		"long name":                 {with(regular(strings.Repeat("a/", 200)+"b", "x")), "401 bytes long"},
		"symbolic link":             {with(special(tar.TypeSymlink, "link", "/etc/passwd")), "a symbolic link"},
		"link as the artefact":      {[]entry{good[0], special(tar.TypeSymlink, "quiet.wasm", "/etc/passwd")}, "a symbolic link"},
		"hard link":                 {with(special(tar.TypeLink, "link", "/etc/passwd")), "a hard link"},
		"character device":          {with(special(tar.TypeChar, "null", "")), "a device"},
		"block device":              {with(special(tar.TypeBlock, "disk", "")), "a device"},
		"pipe":                      {with(special(tar.TypeFifo, "pipe", "")), "a pipe"},
		"unknown type":              {with(special('V', "volume", "")), `of type "V"`},
		"twice":                     {with(regular("quiet.wasm", "other")), "twice"},
		"twice by another spelling": {with(regular("./quiet.wasm", "other")), "twice"},
		"manifest twice":            {with(regular("manifest.yaml", "x")), "twice"},
		"case of letters":           {with(regular("Manifest.YAML", "x")), "case of letters"},
		"file is a folder too":      {with(regular("quiet.wasm/x", "x")), `entry "quiet.wasm/x"`},
		"root is a file":            {with(regular(".", "x")), "is a file"},
		"no manifest":               {[]entry{regular("quiet.wasm", emptyModule)}, "no manifest.yaml at its root"},
		"two manifests":             {[]entry{regular("a/manifest.yaml", "x"), regular("b/manifest.yaml", "x")}, "no manifest.yaml at its root"},
		"artefact is not there":     {good[:1], "its manifest names quiet.wasm, which is not in it"},
		"artefact is another":       {[]entry{good[0], regular("quiet.wasm", "evil")}, digestOf([]byte("evil"))},
		"empty manifest":            {[]entry{regular("manifest.yaml", ""), good[1]}, "empty"},
		"huge manifest":             {[]entry{regular("manifest.yaml", "# "+strings.Repeat("x", 2<<20)), good[1]}, "larger than 1048576 bytes"},
		"aliases without end":       {[]entry{regular("manifest.yaml", laughs()), good[1]}, "excessive aliasing"},
		"not sealed":                {[]entry{regular("manifest.yaml", goodManifest("")[:strings.Index(goodManifest(""), "artifacts")]), good[1]}, "pins no artefact"},
		"manifest climbs out":       {[]entry{regular("manifest.yaml", goodManifest("  process: {path: ../../bin/sh, digest: "+digestOf(nil)+"}\n")), good[1]}, "want a path inside the bundle's folder"},
		"manifest is absolute":      {[]entry{regular("manifest.yaml", goodManifest("  process: {path: /bin/sh, digest: "+digestOf(nil)+"}\n")), good[1]}, "want a path inside the bundle's folder"},
		"too many signatures":       {with(regular("signatures.json", `{"signatures":[`+strings.Repeat(`{},`, 40)+`{}]}`)), "41 signatures"},
		"signatures are no JSON":    {with(regular("signatures.json", `<`)), "signatures.json"},
	} {
		t.Run(name, func(t *testing.T) {
			above := t.TempDir()
			dir := filepath.Join(above, "a", "b")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			for _, data := range [][]byte{tarOf(t, c.entries...), gzipped(t, tarOf(t, c.entries...))} {
				_, err := Open(t.Context(), Standard, dir, SourceOptions{Stdin: bytes.NewReader(data)})
				wants(t, err, ErrPackage, c.says)
			}
			var left []string
			if err := filepath.Walk(above, func(path string, info os.FileInfo, err error) error {
				if err == nil && path != above && path != dir && path != filepath.Dir(dir) {
					left = append(left, path)
				}
				return err
			}); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// TestTarballDropsModes: owner, setuid and the like are not taken over.
func TestTarballDropsModes(t *testing.T) {
	text := goodManifest("  process: {path: quiet, digest: " + digestOf([]byte("x")) + "}\n")
	process := regular("quiet", "x")
	process.Mode, process.Uid = 0o6777, 12345
	c := newCatalog(t, PolicyOff)
	path := filepath.Join(t.TempDir(), "quiet.tar")
	if err := os.WriteFile(path, tarOf(t, regular("./quiet/manifest.yaml", text), regular("quiet/quiet.wasm", emptyModule), entry{process.Header, "x"}), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Install(t.Context(), path, InstallOptions{}); err == nil {
		t.Error("the process lies outside of the only folder")
	}
	process.Name = "quiet/quiet"
	if err := os.WriteFile(path, tarOf(t, regular("./quiet/manifest.yaml", text), regular("quiet/quiet.wasm", emptyModule), entry{process.Header, "x"}), 0o600); err != nil {
		t.Fatal(err)
	}
	got := install(t, c, path)
	info, err := os.Stat(filepath.Join(got.Directory, "quiet"))
	if err != nil || info.Mode() != 0o555 || int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
		t.Errorf("mode %v, %+v, %v", info.Mode(), info.Sys(), err)
	}
}

func TestTarballLimits(t *testing.T) {
	small := &limits{bytes: 1 << 20, free: 64 << 10, entries: 10, ratio: 20}
	zeros := strings.Repeat("\x00", 512<<10)
	random := make([]byte, 512<<10)
	for i := range random {
		random[i] = byte(i * i >> 7)
	}
	var many []entry
	for i := range 11 {
		many = append(many, regular(fmt.Sprint(i), ""))
	}
	folders := append([]entry{}, good...)
	for i := range 11 {
		folders = append(folders, special(tar.TypeDir, fmt.Sprintf("d%d/", i), ""))
	}
	for name, c := range map[string]struct {
		data []byte
		says string
	}{
		"bomb":              {gzipped(t, tarOf(t, with(regular("zeros", zeros))...)), "more than 20 times its size"},
		"bomb behind":       {gzipped(t, append(tarOf(t, good...), zeros...)), "more than 20 times its size"},
		"bomb of nothing":   {append(tarOf(t, good...), make([]byte, 2<<20)...), "unpacks to more than"},
		"many bytes":        {tarOf(t, with(regular("a", zeros), regular("b", zeros), regular("c", zeros))...), "more than 1048576 bytes"},
		"many entries":      {tarOf(t, with(many...)...), "more than 10 entries"},
		"many folders":      {tarOf(t, folders...), "more than 10 entries"},
		"cut":               {tarOf(t, good...)[:1540], "damaged or was cut short"},
		"cut, compressed":   {gzipped(t, tarOf(t, good...))[:100], "damaged or was cut short"},
		"checksum cut":      {cut(gzipped(t, tarOf(t, good...)), 4), "damaged or was cut short"},
		"checksum wrong":    {flip(gzipped(t, tarOf(t, good...)), -6), "damaged or was cut short"},
		"header wrong":      {flip(tarOf(t, good...), 10), "damaged or was cut short"},
		"empty":             {nil, "no tarball"},
		"no tarball":        {[]byte(strings.Repeat("x", 2000)), "damaged or was cut short"},
		"gzip of something": {gzipped(t, []byte("x")), "damaged or was cut short"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := openBytes(t, c.data, small)
			wants(t, err, ErrPackage, c.says)
		})
	}
	if _, err := openBytes(t, gzipped(t, tarOf(t, good...)), small); err != nil {
		t.Error(err)
	}
}

func cut(data []byte, n int) []byte { return data[:len(data)-n] }

func flip(data []byte, at int) []byte {
	out := bytes.Clone(data)
	if at < 0 {
		at += len(out)
	}
	out[at] ^= 0xff
	return out
}

// TestTarballSparse: both of GNU's forms of files with holes.
func TestTarballSparse(t *testing.T) {
	// An old GNU header is one of tar's with type S and the magic of GNU.
	data := tarOf(t, with(regular("holes", ""))...)
	at := bytes.Index(data, []byte("holes"))
	header := data[at : at+512]
	header[156] = 'S'
	copy(header[257:], "ustar  \x00")
	clear(header[345:512])
	copy(header[148:], "        ")
	var sum int
	for _, b := range header {
		sum += int(b)
	}
	copy(header[148:], fmt.Sprintf("%06o\x00 ", sum))
	_, err := openBytes(t, data, nil)
	wants(t, err, ErrPackage, "a sparse file")

	h := &tar.Header{Typeflag: tar.TypeReg, Name: "holes", PAXRecords: map[string]string{"GNU.sparse.major": "0"}}
	wants(t, kindFault(h), ErrPackage, "a sparse file")
}

// TestHostileFolders: what is in a folder is no better than what is in a tarball.
func TestHostileFolders(t *testing.T) {
	for name, c := range map[string]struct {
		change func(dir string) error
		says   string
	}{
		"artefact is a link": {func(dir string) error {
			path := filepath.Join(dir, "quiet.wasm")
			return errors.Join(os.Rename(path, path+"2"), os.Symlink("quiet.wasm2", path))
		}, "a symbolic link"},
		"folder is a link": {func(dir string) error {
			path := filepath.Join(dir, "lib")
			return errors.Join(os.Rename(path, path+"2"), os.Symlink("lib2", path))
		}, "a symbolic link"},
		"artefact is a pipe": {func(dir string) error {
			path := filepath.Join(dir, "quiet.wasm")
			return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600))
		}, "a pipe"},
		"artefact is a folder": {func(dir string) error {
			path := filepath.Join(dir, "quiet.wasm")
			return errors.Join(os.Remove(path), os.Mkdir(path, 0o700))
		}, "a folder"},
		"artefact is gone": {func(dir string) error { return os.Remove(filepath.Join(dir, "quiet.wasm")) }, "which is not in it"},
		"artefact changed": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "quiet.wasm"), []byte("evil"), 0o644) }, digestOf([]byte("evil"))},
		"manifest is a pipe": {func(dir string) error {
			path := filepath.Join(dir, "manifest.yaml")
			return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600))
		}, "a pipe"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := bundle(t, "1.0.0")
			if err := c.change(dir); err != nil {
				t.Fatal(err)
			}
			_, err := newCatalog(t, PolicyOff).Install(t.Context(), dir, InstallOptions{})
			wants(t, err, ErrPackage, c.says)
		})
	}
	// Nothing is taken over that the manifest does not name.
	t.Run("compiled code", func(t *testing.T) {
		dir := bundle(t, "1.0.0")
		planted := filepath.Join(dir, ".compiled", "planted")
		if err := os.MkdirAll(filepath.Dir(planted), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(planted, []byte("evil"), 0o644); err != nil {
			t.Fatal(err)
		}
		got := install(t, newCatalog(t, PolicyOff), dir)
		if _, err := os.Stat(filepath.Join(got.Directory, ".compiled", "planted")); err == nil {
			t.Error("it was installed")
		}
	})
}

// FuzzTarball: whatever comes, nothing is written outside and nothing panics;
// what is taken is what the manifest pins.
func FuzzTarball(f *testing.F) {
	f.Add(tarOf(f, good...))
	f.Add(gzipped(f, tarOf(f, good...)))
	f.Add(tarOf(f, with(regular("../evil", "x"), special(tar.TypeSymlink, "l", "/etc"))...))
	f.Add([]byte{0x1f, 0x8b})
	small := limits{bytes: 1 << 20, free: 64 << 10, entries: 50, ratio: 50}
	f.Fuzz(func(t *testing.T, data []byte) {
		above := t.TempDir()
		dir := filepath.Join(above, "in")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		p, err := Open(t.Context(), Standard, dir, SourceOptions{Stdin: bytes.NewReader(data), limits: &small})
		if err == nil {
			for _, a := range needed(p.Manifest, "", true) {
				if got, err := manifest.FileDigest(filepath.Join(p.Directory, a.Path)); err != nil || got != a.Digest {
					t.Errorf("%s: %s, %v", a.Path, got, err)
				}
			}
			if err := p.Close(); err != nil {
				t.Error(err)
			}
		}
		if list, err := os.ReadDir(above); err != nil || len(list) != 1 {
			t.Errorf("written outside: %v, %v", list, err)
		}
		if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
			t.Errorf("left behind: %v, %v", list, err)
		}
	})
}
