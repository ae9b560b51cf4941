package tokenkeys

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/util/keyutil"
)

func key(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func ids(keys ...crypto.PublicKey) (out []string) {
	for _, k := range keys {
		out = append(out, ID(k))
	}
	slices.Sort(out)
	return out
}

func write(t *testing.T, dir string, s Set) {
	t.Helper()
	if err := Write(dir, Set{}, s); err != nil {
		t.Fatal(err)
	}
}

// A rotation that is cut off after any of its files leaves keys by which the tokens
// of both keys verify.
func TestRotationIsCutOff(t *testing.T) {
	a, b, old := key(t), key(t), key(t)
	before := Set{Signing: a, Next: b, Former: []crypto.PublicKey{&old.PublicKey}}
	after := before.Rotate()
	if ID(&after.Signing.PublicKey) != ID(&b.PublicKey) || after.Next != nil || len(after.Former) != 2 {
		t.Fatalf("rotated: %+v", after)
	}
	for cut := range 4 {
		dir := t.TempDir()
		write(t, dir, before)
		// What Write does, up to the cut.
		steps := []func() error{
			func() error { return writePublic(filepath.Join(dir, FormerFile), after.Former) },
			func() error { return WritePrivate(filepath.Join(dir, SigningFile), after.Signing) },
			func() error { return os.Remove(filepath.Join(dir, NextFile)) },
		}
		for _, step := range steps[:cut] {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
		got, err := Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		verify := append(got.Verifying(), &got.Signing.PublicKey)
		if want := ids(&a.PublicKey, &b.PublicKey, &old.PublicKey); !slices.Equal(ids(verify...), want) {
			t.Errorf("cut after %d files: %q verify, want %q", cut, ids(verify...), want)
		}
		// The next start brings it to its end.
		if end := got.Rotate(); ID(&end.Signing.PublicKey) != ID(&b.PublicKey) {
			t.Errorf("cut after %d files: it does not come to its end", cut)
		}
	}
	dir := t.TempDir()
	write(t, dir, before)
	if err := Write(dir, before, after); err != nil {
		t.Fatal(err)
	}
	if got, err := Read(dir); err != nil || !got.Same(after) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(dir, NextFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestRevoke(t *testing.T) {
	a, b := key(t), key(t)
	s := Set{Signing: a, Former: []crypto.PublicKey{&b.PublicKey}}
	s = s.Revoke(&b.PublicKey)
	if len(s.Verifying()) != 0 || s.Signer() == nil || !s.Knows(&b.PublicKey) {
		t.Errorf("%+v", s)
	}
	if s = s.Revoke(&a.PublicKey); s.Signer() != nil || len(s.Verifying()) != 0 {
		t.Errorf("a revoked key signs: %+v", s)
	}
	s.Next = key(t)
	if s = s.Rotate(); s.Signer() == nil || len(s.Verifying()) != 0 {
		t.Errorf("after the rotation: %+v", s)
	}
}

// Kernels come to one set, whatever the order in which they learn of each other.
func TestMerge(t *testing.T) {
	a, b, c := key(t), key(t), key(t)
	for _, tt := range []struct {
		name        string
		own, shared Set
		want        Set
	}{
		{"the same", Set{Signing: a}, Set{Signing: a}, Set{Signing: a}},
		{"asks for a rotation", Set{Signing: a, Next: b}, Set{Signing: a}, Set{Signing: a, Next: b}},
		{"another was first", Set{Signing: a, Next: b}, Set{Signing: a, Next: c}, Set{Signing: a, Next: c}},
		{"was down while it was rotated", Set{Signing: a}, Set{Signing: b, Former: []crypto.PublicKey{&a.PublicKey}}, Set{Signing: b, Former: []crypto.PublicKey{&a.PublicKey}}},
		{"was down while its key was revoked", Set{Signing: a}, Set{Signing: b, Revoked: []crypto.PublicKey{&a.PublicKey}}, Set{Signing: b, Revoked: []crypto.PublicKey{&a.PublicKey}}},
		{"asks for what has been done", Set{Signing: a, Next: b}, Set{Signing: b, Former: []crypto.PublicKey{&a.PublicKey}}, Set{Signing: b, Former: []crypto.PublicKey{&a.PublicKey}}},
		{"asks for a key that was revoked", Set{Signing: a, Next: b}, Set{Signing: a, Revoked: []crypto.PublicKey{&b.PublicKey}}, Set{Signing: a, Revoked: []crypto.PublicKey{&b.PublicKey}}},
		{"revokes a former one", Set{Signing: a, Revoked: []crypto.PublicKey{&b.PublicKey}}, Set{Signing: a, Former: []crypto.PublicKey{&b.PublicKey}}, Set{Signing: a, Revoked: []crypto.PublicKey{&b.PublicKey}}},
		{"the shared one is of a backup", Set{Signing: b, Former: []crypto.PublicKey{&a.PublicKey}}, Set{Signing: a}, Set{Signing: b, Former: []crypto.PublicKey{&a.PublicKey}}},
		{"of a backup from before a revocation", Set{Signing: b, Revoked: []crypto.PublicKey{&a.PublicKey}}, Set{Signing: a}, Set{Signing: b, Revoked: []crypto.PublicKey{&a.PublicKey}}},
		{"of a backup from within a rotation", Set{Signing: b, Former: []crypto.PublicKey{&a.PublicKey}}, Set{Signing: a, Next: b}, Set{Signing: a, Next: b, Former: nil}},
		{"has the former one still", Set{Signing: a, Former: []crypto.PublicKey{&b.PublicKey}}, Set{Signing: a, Revoked: []crypto.PublicKey{&b.PublicKey}}, Set{Signing: a, Revoked: []crypto.PublicKey{&b.PublicKey}}},
	} {
		got := Merge(tt.own, tt.shared)
		if !got.Same(tt.want) {
			t.Errorf("%s: %+v", tt.name, got)
		}
		if again := Merge(got, got); !again.Same(got) {
			t.Errorf("%s: merged again it is another", tt.name)
		}
	}
}

// A file that is not whole is an error, which names it and says what to do.
func TestDamagedFiles(t *testing.T) {
	good, err := EncodePublic([]crypto.PublicKey{&key(t).PublicKey, &key(t).PublicKey})
	if err != nil {
		t.Fatal(err)
	}
	private, err := EncodePrivate(key(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range Files {
		for name, data := range map[string][]byte{
			"half": good[:len(good)-40], "text": []byte("x"), "other blocks": []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
			"half a key": private[:len(private)/2], "garbage behind": append(bytes.Clone(good), "x"...),
		} {
			dir := t.TempDir()
			write(t, dir, Set{Signing: key(t)})
			if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, file)) {
				t.Errorf("%s, %s: %v", file, name, err)
			}
		}
		dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "x")
		write(t, dir, Set{Signing: key(t)})
		_ = os.Remove(filepath.Join(dir, file))
		if err := errors.Join(os.WriteFile(elsewhere, private, 0o600), os.Symlink(elsewhere, filepath.Join(dir, file))); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "is a symbolic link") {
			t.Errorf("%s by a link: %v", file, err)
		}
	}
}

// Files that the configuration names are read as upstream reads them, and refused where
// others can write them.
func TestReadConfigured(t *testing.T) {
	a, b := key(t), key(t)
	public, err := EncodePublic([]crypto.PublicKey{&a.PublicKey, &b.PublicKey})
	if err != nil {
		t.Fatal(err)
	}
	private, err := keyutil.MarshalPrivateKeyToPEM(a)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		data    []byte
		mode    os.FileMode
		owner   int
		want    int
		wantErr string
	}{
		{"two public keys", public, 0o644, 0, 2, ""},
		{"a private key", private, 0o600, 0, 1, ""},
		{"text", []byte("x"), 0o600, 0, 0, "data does not contain any valid"},
		{"others write", public, 0o666, 0, 0, "others can write it"},
		{"another's", public, 0o644, 60705, 0, "belongs to user 60705"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "sa.pub")
			if err := errors.Join(os.WriteFile(path, tt.data, tt.mode), os.Chmod(path, tt.mode)); err != nil {
				t.Fatal(err)
			}
			if tt.owner != 0 {
				if os.Geteuid() != 0 {
					t.Skip("gives a file to another user: needs root")
				}
				if err := os.Chown(path, tt.owner, 0); err != nil {
					t.Fatal(err)
				}
			}
			got, err := ReadConfigured(path)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Errorf("%v, want %q", err, tt.wantErr)
				}
				return
			}
			if err != nil || len(got) != tt.want {
				t.Errorf("%d keys, %v", len(got), err)
			}
		})
	}
}
