package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func directory(t *testing.T, dir string) *Directory {
	t.Helper()
	d, err := OpenDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// states are those of the certificates of a name, in order.
func states(t *testing.T, d *Directory, name string) (out []string) {
	t.Helper()
	all, err := d.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if c.Name == name {
			out = append(out, string(c.State))
		}
	}
	slices.Sort(out)
	return out
}

// What is renewed and revoked beside a kernel is what the kernel takes.
func TestRenewAndRevoke(t *testing.T) {
	dir := t.TempDir()
	p := open(t, Config{Dir: dir})
	if _, _, err := p.Node("n.1", nil, "host"); err != nil {
		t.Fatal(err)
	}
	d := directory(t, dir)
	if got := states(t, d, "admin"); !slices.Equal(got, []string{"current"}) {
		t.Errorf("admin is %q", got)
	}
	for _, name := range []string{"admin", "node-n.1-server", "apiserver"} {
		before, err := readCert(filepath.Join(dir, name+".crt"))
		if err != nil {
			t.Fatal(err)
		}
		made, err := d.Renew(name)
		if err != nil || len(made) != 1 {
			t.Fatal(made, err)
		}
		// It is as the kernel wants it, or the kernel would make another.
		if names, err := p.Renew(); err != nil || !slices.Equal(names, []string{name}) {
			t.Errorf("%s: taken up %q, %v", name, names, err)
		}
		if after, err := readCert(filepath.Join(dir, name+".crt")); err != nil || !after.Equal(made[0].Cert) || after.Equal(before) {
			t.Errorf("%s: the kernel made another, or none: %v", name, err)
		}
		if got := states(t, d, name); !slices.Equal(got, []string{"current", "former"}) {
			t.Errorf("%s is %q", name, got)
		}
	}
	former := p.Admin().Cert
	revoked, renewed, err := d.Revoke(Revocation{Names: []string{"admin"}})
	if err != nil || len(revoked) != 1 || len(renewed) != 1 || !revoked[0].Equal(former) {
		t.Fatal(revoked, renewed, err)
	}
	if got := states(t, directory(t, dir), "admin"); !slices.Equal(got, []string{"current", "former", "revoked"}) {
		t.Errorf("admin is %q", got)
	}
	// A kernel whose certificate was revoked, but not renewed, renews it.
	p = open(t, Config{Dir: dir})
	list, data, err := p.SignRevocations(p.guard.List(), p.Admin().Cert.SerialNumber)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, RevocationFile), data, 0o600); err != nil {
		t.Fatal(err)
	}
	p.guard.Add(list)
	if names, err := p.Renew(); err != nil || !slices.Equal(names, []string{"admin"}) {
		t.Errorf("renewed %q, %v", names, err)
	}
}

// What cannot be revoked or renewed is refused by name, and nothing is done.
func TestRefusedRevocations(t *testing.T) {
	dir := t.TempDir()
	p := open(t, Config{Dir: dir})
	stranger := open(t, Config{Dir: t.TempDir()}).Admin().Cert
	d := directory(t, dir)
	for _, tt := range []struct {
		name string
		r    Revocation
		want string
	}{
		{"the CA", Revocation{Names: []string{"ca"}}, "the cluster's CA is neither renewed nor revoked"},
		{"the CA's certificate", Revocation{Certificates: []*x509.Certificate{p.ca}}, "the cluster's CA is neither"},
		{"a stranger's", Revocation{Certificates: []*x509.Certificate{stranger}}, "is not of the cluster's CA"},
		{"absent", Revocation{Names: []string{"nobody"}}, "certificate nobody: there is none"},
		{"elsewhere", Revocation{Names: []string{"../pki/admin"}}, "want a name that pintle pki list shows"},
		{"one of two", Revocation{Names: []string{"admin", "nobody"}}, "there is none"},
	} {
		if _, _, err := d.Revoke(tt.r); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if len(tt.r.Names) > 0 {
			if _, err := d.Renew(tt.r.Names...); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("renew %s: %v, want %q", tt.name, err, tt.want)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, RevocationFile)); err == nil {
		t.Error("a list was written")
	}
	if got := states(t, d, "admin"); !slices.Equal(got, []string{"current"}) {
		t.Errorf("admin is %q", got)
	}
	if _, err := OpenDirectory(t.TempDir()); err == nil || !strings.Contains(err.Error(), "no cluster's CA") {
		t.Errorf("an empty directory: %v", err)
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	serial := fmt.Sprintf("%x", open(t, Config{Dir: dir}).Admin().Cert.SerialNumber)
	for _, tt := range []struct {
		digits            string
		certificates, raw int
	}{
		{serial, 1, 0}, {serial[:10], 1, 0}, {"0" + strings.ToUpper(serial[:2]) + ":" + serial[2:], 1, 0}, {serial[:5], 0, 0}, {"", 0, 0}, {"xyz", 0, 0},
		{"0123456789abcdef0123", 0, 1}, {"0123456789", 0, 0}, {"-123456789abcdef0123", 0, 0},
	} {
		var r Revocation
		err := directory(t, dir).Find(&r, tt.digits)
		if len(r.Certificates) != tt.certificates || len(r.Serials) != tt.raw || (err == nil) != (tt.certificates+tt.raw > 0) {
			t.Errorf("%q: %d, %d, %v", tt.digits, len(r.Certificates), len(r.Serials), err)
		}
	}
}

// Records of what has expired go when the next certificate is issued.
func TestRecordsEnd(t *testing.T) {
	now := time.Now()
	dir := t.TempDir()
	p := open(t, Config{Dir: dir, Now: func() time.Time { return now }})
	count := func() int {
		files, err := filepath.Glob(filepath.Join(dir, issuedDirectory, "*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	first := count()
	now = now.Add(leafLife + time.Hour)
	if _, err := p.Renew(); err != nil {
		t.Fatal(err)
	}
	if got := count(); first == 0 || got != first {
		t.Errorf("%d records, then %d", first, got)
	}
}

// What somebody put among the records keeps nothing from being issued or listed.
func TestForeignRecords(t *testing.T) {
	dir := t.TempDir()
	p := open(t, Config{Dir: dir})
	issued := filepath.Join(dir, issuedDirectory)
	if err := errors.Join(os.Symlink("/dev/zero", filepath.Join(issued, "a.crt")), os.Mkdir(filepath.Join(issued, "b.crt"), 0o700),
		os.WriteFile(filepath.Join(issued, "c.crt"), []byte("x"), 0o600), os.Remove(filepath.Join(dir, "admin.crt"))); err != nil {
		t.Fatal(err)
	}
	if names, err := p.Renew(); err != nil || !slices.Equal(names, []string{"admin"}) {
		t.Errorf("renewed %q, %v", names, err)
	}
	if got := states(t, directory(t, dir), "admin"); !slices.Equal(got, []string{"current", "former"}) {
		t.Errorf("admin is %q", got)
	}
}

// A kernel and commands that renew at the same time leave a pair that belongs together.
func TestRenewAtTheSameTime(t *testing.T) {
	dir := t.TempDir()
	p := open(t, Config{Dir: dir})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range 5 {
				if _, err := directory(t, dir).Renew("admin"); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range 5 {
				if _, err := p.Renew(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if _, err := p.Renew(); err != nil {
		t.Fatal(err)
	}
	if _, ok := p.loadLeaf("admin", p.admin.want); !ok {
		t.Error("key and certificate do not belong together")
	}
	if got := states(t, directory(t, dir), "admin"); len(got) != 11 {
		t.Errorf("%d certificates were issued, want 11: the kernel has issued some, too", len(got))
	}
}
