package credentials

import (
	"bytes"
	"context"
	"crypto"
	"crypto/x509"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"pintle.dev/pintle/kernel/api/auth/pki"
	"pintle.dev/pintle/kernel/api/auth/token"
	"pintle.dev/pintle/kernel/api/auth/tokenkeys"
	"pintle.dev/pintle/kernel/secretfile"
)

// memory is a shared record.
type memory struct {
	mu       sync.Mutex
	data     []byte
	revision int64
	fault    error
}

func (m *memory) ReadCredentials(context.Context) ([]byte, int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return bytes.Clone(m.data), m.revision, m.fault
}

func (m *memory) WriteCredentials(_ context.Context, data []byte, revision int64) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fault != nil || revision != m.revision {
		return false, m.fault
	}
	m.data, m.revision = data, m.revision+1
	return true, nil
}

type kernel struct {
	t    *testing.T
	dir  string
	k    *Keeper
	keys *token.Keys
	pki  *pki.PKI
	log  *strings.Builder
}

var ticks = clocktesting.NewFakeClock(time.Now())

func start(t *testing.T, dir string, m *memory, files ...string) *kernel {
	t.Helper()
	k, err := try(t, dir, m, files...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func try(t *testing.T, dir string, m *memory, files ...string) (*kernel, error) {
	t.Helper()
	p, err := pki.Open(pki.Config{Dir: dir})
	if err != nil {
		return nil, err
	}
	out := &kernel{t: t, dir: dir, keys: &token.Keys{}, pki: p, log: &strings.Builder{}}
	o := Options{PKI: p, Keys: out.keys, KeyFiles: files, Logger: slog.New(slog.NewTextHandler(out.log, nil)), Clock: ticks}
	if m != nil {
		o.Shared = m
	}
	out.k, err = Open(t.Context(), o)
	return out, err
}

// look is one round, with what it logs.
func (k *kernel) look() error {
	k.t.Helper()
	err := errors.Join(k.k.look(k.t.Context()), k.k.say())
	k.k.tell(err)
	return err
}

func (k *kernel) must() {
	k.t.Helper()
	if err := k.look(); err != nil {
		k.t.Fatal(err)
	}
}

func (k *kernel) signs() string {
	k.t.Helper()
	s, err := tokenkeys.Read(k.dir)
	if err != nil {
		k.t.Fatal(err)
	}
	if id := tokenkeys.ID(&s.Signing.PublicKey); k.keys.IDs()[0] == id {
		return id
	}
	k.t.Fatalf("%q signs, and not that of the file", k.keys.IDs()[0])
	return ""
}

func (k *kernel) verifies(id string) bool { return slices.Contains(k.keys.IDs(), id) }

// ask puts a next key there, as the command does.
func (k *kernel) ask() string {
	k.t.Helper()
	key, err := tokenkeys.New()
	if err != nil {
		k.t.Fatal(err)
	}
	if err := tokenkeys.WritePrivate(filepath.Join(k.dir, tokenkeys.NextFile), key); err != nil {
		k.t.Fatal(err)
	}
	return tokenkeys.ID(&key.PublicKey)
}

func (k *kernel) revoke(id string) {
	k.t.Helper()
	s, err := tokenkeys.Read(k.dir)
	if err != nil {
		k.t.Fatal(err)
	}
	for _, key := range s.All() {
		if tokenkeys.ID(key) == id {
			if err := tokenkeys.Write(k.dir, s, s.Revoke(key)); err != nil {
				k.t.Fatal(err)
			}
			return
		}
	}
	k.t.Fatalf("no key %s", id)
}

// revokeAdmin has the administrator's certificate revoked and taken up, and returns it.
func (k *kernel) revokeAdmin() *x509.Certificate {
	k.t.Helper()
	d, err := pki.OpenDirectory(k.dir)
	if err != nil {
		k.t.Fatal(err)
	}
	stolen := k.pki.Admin().Cert
	if _, _, err := d.Revoke(pki.Revocation{Names: []string{"admin"}}); err != nil {
		k.t.Fatal(err)
	}
	k.must()
	return stolen
}

// A kernel that is alone rotates at once; the former key verifies until it is revoked,
// which no file undoes while the kernel runs.
func TestRotation(t *testing.T) {
	k := start(t, filepath.Join(t.TempDir(), "pki"), nil)
	k.must()
	first := k.signs()
	second := k.ask()
	k.must()
	if k.signs() != second || !k.verifies(first) {
		t.Fatalf("in force: %q", k.keys.IDs())
	}
	k.revoke(first)
	k.must()
	if k.signs() != second || k.verifies(first) {
		t.Fatalf("in force: %q", k.keys.IDs())
	}
	for _, f := range []string{tokenkeys.RevokedFile, tokenkeys.FormerFile} {
		if err := os.Remove(filepath.Join(k.dir, f)); err != nil {
			t.Fatal(err)
		}
	}
	k.must()
	if k.verifies(first) {
		t.Error("a key is good again whose file was removed")
	}
	if again := start(t, k.dir, nil); again.signs() != second || again.verifies(first) {
		t.Errorf("after a start: %q", again.keys.IDs())
	}
	data, err := os.ReadFile(filepath.Join(k.dir, inForceFile))
	var said InForce
	if err != nil || json.Unmarshal(data, &said) != nil || said.Signing != second || said.Certificates["admin"] == "" {
		t.Errorf("said: %s %v", data, err)
	}
}

// What is damaged changes nothing in a kernel that runs, is told of, and is taken up
// when it is whole. A kernel does not start with it.
func TestDamage(t *testing.T) {
	for _, file := range []string{tokenkeys.SigningFile, tokenkeys.NextFile, tokenkeys.FormerFile, tokenkeys.RevokedFile, pki.RevocationFile} {
		t.Run(file, func(t *testing.T) {
			k := start(t, filepath.Join(t.TempDir(), "pki"), nil)
			first := k.signs()
			k.ask()
			k.must()
			k.revoke(first)
			stolen := k.revokeAdmin()
			before := k.keys.IDs()
			path := filepath.Join(k.dir, file)
			whole, err := os.ReadFile(path)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("-----BEGIN "), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := k.look(); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v", err)
			}
			if !slices.Equal(before, k.keys.IDs()) || !k.pki.Guard().List().Revoked(stolen) {
				t.Error("damage changed what is in force")
			}
			lines := strings.Count(k.log.String(), "those before stay in force")
			_ = k.look()
			if again := strings.Count(k.log.String(), "those before stay in force"); lines != 1 || again != 1 {
				t.Errorf("told %d times, then %d", lines, again)
			}
			if _, err := try(t, k.dir, nil); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("a kernel starts with it: %v", err)
			}
			if whole == nil {
				err = os.Remove(path)
			} else {
				err = os.WriteFile(path, whole, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			k.must()
			if !strings.Contains(k.log.String(), "are up to date again") {
				t.Errorf("log:\n%s", k.log)
			}
		})
	}
}

// A list of revoked certificates that was removed is in force on, in a kernel that runs.
func TestRemovedList(t *testing.T) {
	k := start(t, filepath.Join(t.TempDir(), "pki"), nil)
	stolen := k.revokeAdmin()
	if err := os.Remove(filepath.Join(k.dir, pki.RevocationFile)); err != nil {
		t.Fatal(err)
	}
	k.must()
	if !k.pki.Guard().List().Revoked(stolen) {
		t.Error("the certificate is good again")
	}
}

// Configured keys verify beside the directory's, are read again when they change, and
// do not bring a revoked key back.
func TestConfiguredKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "others.pub")
	put := func(keys ...crypto.PublicKey) {
		t.Helper()
		data, err := tokenkeys.EncodePublic(keys)
		if err != nil {
			t.Fatal(err)
		}
		if err := secretfile.Write(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	a, err := tokenkeys.New()
	if err != nil {
		t.Fatal(err)
	}
	b, err := tokenkeys.New()
	if err != nil {
		t.Fatal(err)
	}
	put(&a.PublicKey)
	k := start(t, filepath.Join(t.TempDir(), "pki"), nil, file)
	if !k.verifies(tokenkeys.ID(&a.PublicKey)) {
		t.Fatal("the configured key does not verify")
	}
	put(&b.PublicKey)
	k.must()
	if k.verifies(tokenkeys.ID(&a.PublicKey)) || !k.verifies(tokenkeys.ID(&b.PublicKey)) {
		t.Errorf("in force: %q", k.keys.IDs())
	}
	first := k.signs()
	k.ask()
	k.must()
	former, err := tokenkeys.Read(k.dir)
	if err != nil {
		t.Fatal(err)
	}
	put(&b.PublicKey, former.Former[0])
	k.revoke(first)
	k.must()
	if k.verifies(first) {
		t.Error("a revoked key verifies, since a file names it")
	}
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := k.look(); err == nil || !strings.Contains(err.Error(), "others can write it") {
		t.Error(err)
	}
	if _, err := try(t, k.dir, nil, file); err == nil {
		t.Error("a kernel starts with a file that others can write")
	}
}

// Several kernels on one record: a new key signs when all know it, by whoever asked
// for it; what one revokes all refuse; who was away follows at its start.
func TestSeveralKernels(t *testing.T) {
	m := &memory{}
	dir := func() string { return filepath.Join(t.TempDir(), "pki") }
	a := start(t, dir(), m)
	join := func() string {
		t.Helper()
		authority, err := pki.EnsureAuthority(a.dir)
		if err != nil {
			t.Fatal(err)
		}
		to := dir()
		if err := pki.WriteAuthority(to, authority); err != nil {
			t.Fatal(err)
		}
		return to
	}
	b, away := start(t, join(), m), start(t, join(), m)
	all := func() {
		t.Helper()
		for range 3 {
			a.must()
			b.must()
		}
	}
	all()
	first := a.signs()
	if b.signs() != first {
		t.Fatal("they sign by different keys")
	}
	old := bytes.Clone(m.data)
	second := b.ask()
	b.must()
	if b.signs() != first || !b.verifies(second) {
		t.Fatal("the new key signs before the others know it")
	}
	// Both ask, one is first.
	a.ask()
	all()
	if !a.verifies(second) || a.signs() != first {
		t.Errorf("the other kernel: %q", a.keys.IDs())
	}
	ticks.Step(learn)
	all()
	if a.signs() != second || b.signs() != second || !a.verifies(first) || !b.verifies(first) {
		t.Fatalf("a %q, b %q, want %s to sign and %s to verify", a.keys.IDs(), b.keys.IDs(), second, first)
	}
	a.revoke(first)
	d, err := pki.OpenDirectory(a.dir)
	if err != nil {
		t.Fatal(err)
	}
	stolen := a.pki.Admin().Cert
	if _, _, err := d.Revoke(pki.Revocation{Names: []string{"admin"}}); err != nil {
		t.Fatal(err)
	}
	all()
	if b.verifies(first) || !b.pki.Guard().List().Revoked(stolen) {
		t.Errorf("the other kernel: %q, revoked %d", b.keys.IDs(), len(b.pki.Guard().List().Entries()))
	}
	if _, err := os.Stat(filepath.Join(b.dir, pki.RevocationFile)); err != nil {
		t.Errorf("the other kernel keeps no list: %v", err)
	}
	// One that was away has keys that are the cluster's, and takes the present ones.
	if ok, err := Belongs(t.Context(), m, away.dir, "of another"); !ok || err != nil {
		t.Errorf("who was away belongs: %v %v", ok, err)
	}
	back := start(t, away.dir, m)
	if back.signs() != second || back.verifies(first) || !back.pki.Guard().List().Revoked(stolen) {
		t.Errorf("who was away: %q", back.keys.IDs())
	}
	if _, err := os.Stat(filepath.Join(a.dir, tokenkeys.NextFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a request that came second is still there: %v", err)
	}
	// etcd is restored from a backup of before: nothing comes back, and it is told anew.
	m.mu.Lock()
	m.data, m.revision = old, m.revision+1
	m.mu.Unlock()
	all()
	if a.signs() != second || b.signs() != second || a.verifies(first) || b.verifies(first) || !b.pki.Guard().List().Revoked(stolen) {
		t.Errorf("after a restore: a %q, b %q", a.keys.IDs(), b.keys.IDs())
	}
	if s, err := openRecord(a.pki, m.data); err != nil || tokenkeys.ID(&s.keys.Signing.PublicKey) != second || !s.revocations.Revoked(stolen) {
		t.Errorf("the record after a restore: %v", err)
	}
	// The record gives nothing away and takes nothing from who has not the CA's key.
	for _, k := range []*kernel{a, b} {
		data, err := os.ReadFile(filepath.Join(k.dir, tokenkeys.SigningFile))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(m.data, bytes.Split(data, []byte("\n"))[1]) {
			t.Error("the record holds a key in the clear")
		}
	}
}

// A record that somebody else wrote, or damaged, changes nothing; a kernel does not
// start with it. Without etcd, what is revoked here counts.
func TestHostileRecord(t *testing.T) {
	m := &memory{}
	k := start(t, filepath.Join(t.TempDir(), "pki"), m)
	stranger := start(t, filepath.Join(t.TempDir(), "pki"), &memory{})
	theirs, err := sealRecord(stranger.pki, shared{keys: stranger.k.keys})
	if err != nil {
		t.Fatal(err)
	}
	k.must()
	good := bytes.Clone(m.data)
	flipped := bytes.Clone(good)
	flipped[len(flipped)-1] ^= 1
	before := k.keys.IDs()
	for name, data := range map[string][]byte{"another authority's": theirs, "damaged": flipped, "cut": good[:20], "text": []byte(`{"signing":"x"}`)} {
		m.data, m.revision = data, m.revision+1
		if err := k.look(); err == nil || !strings.Contains(err.Error(), "the cluster's credentials in etcd") {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Equal(before, k.keys.IDs()) {
			t.Errorf("%s: %q in force", name, k.keys.IDs())
		}
		if !bytes.Equal(m.data, data) {
			t.Errorf("%s: it was written over", name)
		}
		if _, err := try(t, k.dir, m); err == nil {
			t.Errorf("%s: a kernel starts with it", name)
		}
	}
	m.fault = errors.New("no etcd")
	first := k.signs()
	k.ask()
	_ = k.look()
	ticks.Step(2 * learn)
	_ = k.look()
	if k.signs() != first {
		t.Error("a key signs of which the others cannot have learned")
	}
	d, err := pki.OpenDirectory(k.dir)
	if err != nil {
		t.Fatal(err)
	}
	stolen := k.pki.Admin().Cert
	if _, _, err := d.Revoke(pki.Revocation{Names: []string{"admin"}}); err != nil {
		t.Fatal(err)
	}
	if err := k.look(); err == nil || !k.pki.Guard().List().Revoked(stolen) {
		t.Errorf("revoked without etcd: %v", err)
	}
	m.fault, m.data = nil, good
	m.revision++
	k.must()
	if s, err := openRecord(k.pki, m.data); err != nil || !s.revocations.Revoked(stolen) {
		t.Errorf("the others are not told afterwards: %v", err)
	}
	// A key that another put in the place of the cluster's is not used.
	other, err := tokenkeys.New()
	if err != nil {
		t.Fatal(err)
	}
	if err := tokenkeys.WritePrivate(filepath.Join(k.dir, tokenkeys.SigningFile), other); err != nil {
		t.Fatal(err)
	}
	if err := k.look(); !errors.Is(err, errForeign) {
		t.Errorf("error %v", err)
	}
	if k.verifies(tokenkeys.ID(&other.PublicKey)) {
		t.Error("it verifies")
	}
}

// BenchmarkLook is what a second costs in which nothing changed.
func BenchmarkLook(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "pki")
	p, err := pki.Open(pki.Config{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	k, err := Open(b.Context(), Options{PKI: p, Keys: &token.Keys{}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		k.lookAtCertificates()
		if err := errors.Join(k.look(b.Context()), k.say()); err != nil {
			b.Fatal(err)
		}
	}
}
