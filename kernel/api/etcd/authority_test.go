package etcd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pintle.dev/pintle/kernel/api/auth/credentials"
	"pintle.dev/pintle/kernel/api/auth/pki"
	"pintle.dev/pintle/kernel/api/auth/token"
	"pintle.dev/pintle/kernel/api/auth/tokenkeys"
)

func openForTest(t *testing.T) *Backend {
	t.Helper()
	b, err := Open(t.Context(), Config{Servers: []string{server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// TestAuthority holds how the kernels of one etcd come to one CA and one token
// key: the first one's, handed over sealed or by hand, and never another.
func TestAuthority(t *testing.T) {
	key, other := bytes.Repeat([]byte("k"), 32), bytes.Repeat([]byte("o"), 32)
	authority := func(t *testing.T, dir string) pki.Authority {
		t.Helper()
		a, err := pki.EnsureAuthority(dir)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	wants := func(t *testing.T, err error, words string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("the error is %v; want %q in it", err, words)
		}
	}
	t.Run("sealed", func(t *testing.T) {
		_, client := emptied(t, false)
		b, first, second := openForTest(t), t.TempDir(), filepath.Join(t.TempDir(), "pki")
		if err := b.ShareAuthority(t.Context(), first, key); err != nil {
			t.Fatal(err)
		}
		if err := b.ShareAuthority(t.Context(), second, key); err != nil {
			t.Fatal(err)
		}
		a := authority(t, first)
		if got := authority(t, second); !bytes.Equal(a.CAKey, got.CAKey) || !bytes.Equal(a.CACert, got.CACert) || !bytes.Equal(a.TokenKey, got.TokenKey) {
			t.Error("the second kernel has other keys than the first")
		}
		if info, err := os.Stat(filepath.Join(second, "ca.key")); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("ca.key: %v, %v", info.Mode(), err)
		}
		out, err := client.Get(t.Context(), "/registry/clusterauthority")
		if err != nil || len(out.Kvs) != 1 {
			t.Fatalf("%v, %d records", err, len(out.Kvs))
		}
		for _, secret := range [][]byte{a.CAKey, a.TokenKey} {
			if bytes.Contains(out.Kvs[0].Value, bytes.Split(secret, []byte("\n"))[1]) {
				t.Error("etcd holds a key in the clear")
			}
		}
		wants(t, b.ShareAuthority(t.Context(), t.TempDir(), other), "sealed by another cluster key")
		wants(t, b.ShareAuthority(t.Context(), t.TempDir(), nil), "set store.etcd.clusterKeyFile on each kernel")
		stranger := t.TempDir()
		authority(t, stranger)
		wants(t, b.ShareAuthority(t.Context(), stranger, key), "has another CA than the cluster in etcd")
		// A kernel that has the keys may change the cluster key.
		if err := b.ShareAuthority(t.Context(), first, other); err != nil {
			t.Fatal(err)
		}
		if err := b.ShareAuthority(t.Context(), t.TempDir(), other); err != nil {
			t.Error(err)
		}
	})
	t.Run("by hand", func(t *testing.T) {
		emptied(t, false)
		b, first, second := openForTest(t), t.TempDir(), t.TempDir()
		if err := b.ShareAuthority(t.Context(), first, nil); err != nil {
			t.Fatal(err)
		}
		wants(t, b.ShareAuthority(t.Context(), second, key), "has no store.etcd.clusterKeyFile")
		if err := pki.WriteAuthority(second, authority(t, first)); err != nil {
			t.Fatal(err)
		}
		if err := b.ShareAuthority(t.Context(), second, nil); err != nil {
			t.Error(err)
		}
		if err := os.Remove(filepath.Join(second, "sa.key")); err != nil {
			t.Fatal(err)
		}
		wants(t, b.ShareAuthority(t.Context(), second, nil), "has another key of service-account tokens")
	})
	t.Run("after a rotation", func(t *testing.T) {
		emptied(t, false)
		b, first, second := openForTest(t), t.TempDir(), t.TempDir()
		if err := b.ShareAuthority(t.Context(), first, nil); err != nil {
			t.Fatal(err)
		}
		if err := pki.WriteAuthority(second, authority(t, first)); err != nil {
			t.Fatal(err)
		}
		serve := func(dir string) *token.Keys {
			t.Helper()
			p, err := pki.Open(pki.Config{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			keys := &token.Keys{}
			if _, err := credentials.Open(t.Context(), credentials.Options{PKI: p, Keys: keys, Shared: b}); err != nil {
				t.Fatal(err)
			}
			return keys
		}
		former := serve(first).IDs()[0]
		// The first kernel has rotated and knows the former key no more.
		keys, err := tokenkeys.Read(first)
		if err != nil {
			t.Fatal(err)
		}
		next := keys
		if next.Next, err = tokenkeys.New(); err != nil {
			t.Fatal(err)
		}
		if err := tokenkeys.Write(first, keys, next); err != nil {
			t.Fatal(err)
		}
		if got := serve(first).IDs(); len(got) != 2 || got[0] != former {
			t.Fatalf("keys %q", got)
		}
		for _, dir := range []string{first, second} {
			if err := b.ShareAuthority(t.Context(), dir, nil); err != nil {
				t.Error(err)
			}
		}
		if got := serve(second).IDs(); len(got) != 2 || got[1] != tokenkeys.ID(&next.Next.PublicKey) {
			t.Errorf("the second kernel has keys %q", got)
		}
		// One that has another key is no kernel of the cluster, whatever it calls it.
		if err := os.Remove(filepath.Join(second, "sa.key")); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(second, "sa-next.key")); err != nil {
			t.Fatal(err)
		}
		wants(t, b.ShareAuthority(t.Context(), second, nil), "has another key of service-account tokens")
	})
	t.Run("at the same time", func(t *testing.T) {
		emptied(t, false)
		b := openForTest(t)
		dirs := make([]string, 8)
		var wg sync.WaitGroup
		for i := range dirs {
			dirs[i] = t.TempDir()
			wg.Go(func() {
				if err := b.ShareAuthority(t.Context(), dirs[i], key); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for _, dir := range dirs[1:] {
			if !bytes.Equal(authority(t, dirs[0]).CAKey, authority(t, dir).CAKey) {
				t.Error("kernels that started at the same time have different CAs")
			}
		}
	})
}

func TestReadClusterKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	write := func(n int, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(file, make([]byte, n), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		bytes int
		mode  os.FileMode
		want  string
	}{{32, 0o600, ""}, {32, 0o400, ""}, {32, 0o640, "can be read by others (mode 0640)"}, {31, 0o600, "has 31 bytes"}, {1 << 20, 0o600, "has 1048576 bytes"}} {
		write(tt.bytes, tt.mode)
		_, err := ReadClusterKey(file)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%d bytes of mode %o: %v, want %q", tt.bytes, tt.mode, err, tt.want)
		}
	}
	if _, err := ReadClusterKey(file + "x"); err == nil || !strings.Contains(err.Error(), "make one with") {
		t.Errorf("a missing file: %v", err)
	}
}
