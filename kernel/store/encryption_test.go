package store

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runEncrypted opens a store with keys, lets do work on it and closes it.
func runEncrypted(t *testing.T, dir string, keys [][]byte, do func(s *Store)) {
	t.Helper()
	s, err := Open(Config{Dir: dir, MinFreeBytes: -1, Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	do(s)
	cancel()
	if err := errors.Join(<-done, s.Close()); err != nil {
		t.Fatal(err)
	}
}

// holdsWord reports whether a file of the directory has the word.
func holdsWord(t *testing.T, dir, word string) bool {
	t.Helper()
	found := false
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		found = found || bytes.Contains(data, []byte(word))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestEncryptedDirectory: with a key, nothing that was written is found in the
// files, neither values nor keys, in any of the places that Badger keeps them;
// without the right key nothing opens, and nothing is lost; a key can be
// changed, and encryption be taken up on a database that has none.
func TestEncryptedDirectory(t *testing.T) {
	first, second := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 16)
	const small, large, name = "a-small-value-of-the-test", "a-large-value-of-the-test", "/a-key-of-the-test"
	write := func(s *Store, suffix string) {
		t.Helper()
		for key, value := range map[string]string{
			name + suffix:            small + suffix,
			name + "/large" + suffix: strings.Repeat("x", 1<<20) + large + suffix,
		} {
			if _, err := s.Commit(t.Context(), Write{Key: key, Value: []byte(value), Expect: AnyRevision}); err != nil {
				t.Fatal(err)
			}
		}
	}
	has := func(s *Store, suffix string) {
		t.Helper()
		for _, key := range []string{name + suffix, name + "/large" + suffix} {
			if kv, _, err := s.Get(key); err != nil || !strings.HasSuffix(string(kv.Value), "of-the-test"+suffix) {
				t.Errorf("%s: %d bytes, %v", key, len(kv.Value), err)
			}
		}
	}
	refused := func(dir string, keys [][]byte, want string) {
		t.Helper()
		s, err := Open(Config{Dir: dir, MinFreeBytes: -1, Keys: keys})
		if err == nil {
			t.Fatal(errors.Join(errors.New("the database opened without its key"), s.Close()))
		}
		if wrong := (*KeyError)(nil); !errors.As(err, &wrong) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("the error is %v; want %q", err, want)
		}
	}
	clean := func(dir, suffix string) {
		t.Helper()
		for _, word := range []string{small + suffix, large + suffix, name + suffix, name + "/large" + suffix} {
			if holdsWord(t, dir, word) {
				t.Errorf("%q is in the files", word)
			}
		}
	}

	dir := t.TempDir()
	runEncrypted(t, dir, [][]byte{first}, func(s *Store) {
		write(s, "-1")
		clean(dir, "-1") // as after a crash
	})
	clean(dir, "-1")
	refused(dir, nil, "it is encrypted; set store.encryptionKeyFile")
	refused(dir, [][]byte{second}, "none of the keys in store.encryptionKeyFile")
	refused(dir, [][]byte{nil, first}, "cannot be decrypted in place")
	runEncrypted(t, dir, [][]byte{second, first}, func(s *Store) { has(s, "-1"); write(s, "-2") })
	refused(dir, [][]byte{first}, "none of the keys")
	runEncrypted(t, dir, [][]byte{second}, func(s *Store) { has(s, "-1"); has(s, "-2") })
	clean(dir, "-1")
	clean(dir, "-2")
	if err := os.Rename(filepath.Join(dir, "KEYREGISTRY"), filepath.Join(dir, "kept")); err != nil {
		t.Fatal(err)
	}
	refused(dir, [][]byte{second}, "KEYREGISTRY is missing")
	if err := os.Rename(filepath.Join(dir, "kept"), filepath.Join(dir, "KEYREGISTRY")); err != nil {
		t.Fatal(err)
	}
	runEncrypted(t, dir, [][]byte{second}, func(s *Store) { has(s, "-2") })

	plain := t.TempDir()
	runEncrypted(t, plain, nil, func(s *Store) { write(s, "-1") })
	if !holdsWord(t, plain, small+"-1") || !holdsWord(t, plain, large+"-1") {
		t.Error("what is not encrypted is not in the files: the search proves nothing")
	}
	refused(plain, [][]byte{first}, "it is not encrypted; to encrypt what is written from now on")
	runEncrypted(t, plain, nil, func(s *Store) { has(s, "-1") })
	runEncrypted(t, plain, [][]byte{first, nil}, func(s *Store) { has(s, "-1"); write(s, "-2") })
	clean(plain, "-2")
	runEncrypted(t, plain, [][]byte{first}, func(s *Store) { has(s, "-1"); has(s, "-2") })
}

func TestReadKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	key := func(n int) string { return base64.StdEncoding.EncodeToString(make([]byte, n)) }
	for _, tt := range []struct {
		text, want string
		mode       os.FileMode
		keys       []int // their lengths
	}{
		{key(32) + "\n", "", 0o600, []int{32}},
		{"# comment\n\n" + key(16) + "\n" + key(24) + "\nidentity\n", "", 0o400, []int{16, 24, 0}},
		{key(32), "can be read by others (mode 0644)", 0o644, nil},
		{key(31), "keys:1: is neither base64", 0o600, nil},
		{key(32) + "\nword\n", "keys:2: is neither base64", 0o600, nil},
		{"# nothing\n", "has no key", 0o600, nil},
	} {
		if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, tt.mode); err != nil {
			t.Fatal(err)
		}
		keys, err := ReadKeys(file)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v; want %q", tt.text, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "word") && strings.Contains(err.Error(), "the word identity") && strings.Contains(err.Error(), key(31)) {
			t.Error("the error gives the line away")
		}
		var lengths []int
		for _, k := range keys {
			lengths = append(lengths, len(k))
		}
		if fmt.Sprint(lengths) != fmt.Sprint(tt.keys) {
			t.Errorf("%q: keys of %v bytes; want %v", tt.text, lengths, tt.keys)
		}
		if err := os.Chmod(file, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ReadKeys(file + "x"); err == nil || !strings.Contains(err.Error(), "make one with") {
		t.Errorf("a missing file: %v", err)
	}
}
