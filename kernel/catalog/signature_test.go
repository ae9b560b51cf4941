package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// keys makes a pair and returns the private key and the file of the public one.
func keys(t testing.TB) (*PrivateKey, string) {
	t.Helper()
	private, public, err := GenerateKey([]byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, data := range map[string][]byte{"cosign.key": private, "cosign.pub": public} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key, err := ReadPrivateKey(filepath.Join(dir, "cosign.key"), secret("secret"))
	if err != nil {
		t.Fatal(err)
	}
	return key, filepath.Join(dir, "cosign.pub")
}

func secret(word string) func() ([]byte, error) {
	return func() ([]byte, error) { return []byte(word), nil }
}

func TestKeys(t *testing.T) {
	key, public := keys(t)
	pub, err := ReadPublicKey(public)
	if err != nil || pub.ID != key.ID {
		t.Fatalf("public key %+v, %v; private key %s", pub, err, key.ID)
	}
	private := filepath.Join(filepath.Dir(public), "cosign.key")
	if _, err := ReadPrivateKey(private, secret("other")); !errors.Is(err, ErrPassword) {
		t.Error(err)
	}
	text, err := os.ReadFile(private)
	if err != nil || !bytes.HasPrefix(text, []byte("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----")) || bytes.Contains(text, []byte("secret")) {
		t.Errorf("%s, %v", text, err)
	}
	if _, err := ReadPublicKey(private); err == nil {
		t.Error("a private key was taken for a public one")
	}
	if _, err := ReadPrivateKey(public, secret("secret")); err == nil {
		t.Error("a public key was taken for a private one")
	}
	sig, err := key.sign([]byte("data"))
	if err != nil || !pub.verifies([]byte("data"), sig) || pub.verifies([]byte("date"), sig) {
		t.Errorf("signature %x, %v", sig, err)
	}
}

func TestPolicies(t *testing.T) {
	mine, minePublic := keys(t)
	other, otherPublic := keys(t)
	dir := bundle(t, "1.0.0")
	missing := dir
	byMine := tarball(t, dir, PackOptions{Key: mine})
	byOther := tarball(t, dir, PackOptions{Key: other})
	expired := tarball(t, dir, PackOptions{Key: mine, Expires: time.Now().Add(-time.Hour)})
	later := tarball(t, dir, PackOptions{Key: mine, Expires: time.Now().Add(time.Hour)})
	// The signature of another bundle, moved over.
	moved := repack(t, byMine, tarball(t, bundle(t, "2.0.0"), PackOptions{Key: mine}))

	for name, c := range map[string]struct {
		source string
		keys   []string
		says   string // empty: it is taken
	}{
		"mine":        {byMine, []string{minePublic}, ""},
		"one of two":  {byMine, []string{otherPublic, minePublic}, ""},
		"not expired": {later, []string{minePublic}, ""},
		"missing":     {missing, []string{minePublic}, "it has no signature; ask its author"},
		"foreign":     {byOther, []string{minePublic}, "by none of the 1 known keys; add the author's public key to plugins.keys"},
		"expired":     {expired, []string{minePublic}, "expired at 20"},
		"moved":       {moved, []string{minePublic}, "ask its author for the package that was signed"},
		"no key":      {byMine, nil, "no public key is known"},
	} {
		t.Run(name, func(t *testing.T) {
			strict := newCatalog(t, PolicyRequire, c.keys...)
			got, err := strict.Install(t.Context(), c.source, InstallOptions{})
			if c.says != "" {
				wants(t, err, ErrSignature, "plugin bundle quiet", c.says)
				if l, err := strict.Lock(); err != nil || len(l.Bundles) > 0 {
					t.Errorf("lock %+v, %v", l, err)
				}
			} else if err != nil || got.Signature == nil || got.Signature.Key != mine.ID {
				t.Fatalf("%+v, %v", got, err)
			} else if lock, _ := strict.Lock(); lock.Bundle("quiet").SignedBy != mine.ID {
				t.Errorf("lock %+v", lock)
			}
			// Who only warns takes it, and so does who does not look.
			for _, p := range []Policy{PolicyWarn, PolicyOff} {
				lax := newCatalog(t, p, c.keys...)
				install(t, lax, c.source)
				if _, err := lax.Find("quiet", "", ""); err != nil {
					t.Errorf("%s: %v", p, err)
				}
				// The signature is looked at again at each start.
				lax.cfg.Policy = PolicyRequire
				_, err := lax.Find("quiet", "", "")
				if c.says != "" {
					wants(t, err, ErrSignature, c.says)
				} else if err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// repack puts the signatures of one tarball into another.
func repack(t *testing.T, from, to string) string {
	t.Helper()
	open := func(path string) *Package {
		p, err := Open(t.Context(), path, t.TempDir(), SourceOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	a, b := open(from), open(to)
	b.Signatures = a.Signatures
	path := filepath.Join(t.TempDir(), "moved.tar")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.tarball(t.Context(), f, nil), f.Close(), a.Close(), b.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestOriginMustSpeakOfBundle: a signature that was kept for another bundle
// does not count for this one.
func TestOriginMustSpeakOfBundle(t *testing.T) {
	mine, public := keys(t)
	c := newCatalog(t, PolicyRequire, public)
	one := install(t, c, tarball(t, bundle(t, "1.0.0"), PackOptions{Key: mine}))
	two := install(t, c, tarball(t, bundle(t, "2.0.0"), PackOptions{Key: mine}))
	data, err := os.ReadFile(c.originFile(one.Digest))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.originFile(two.Digest), data, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = c.Find("quiet", "", "")
	wants(t, err, ErrDigest, one.Digest, two.Digest, "install it again")
	if err := os.Remove(c.originFile(two.Digest)); err != nil {
		t.Fatal(err)
	}
	if _, err = c.Find("quiet", "", ""); err == nil || !strings.Contains(err.Error(), "install it again") {
		t.Error(err)
	}
}

// TestPayload is the form of simple signing that cosign reads.
func TestPayload(t *testing.T) {
	key, _ := keys(t)
	s, err := Sign(key, []byte("image"), "localhost:5000/quiet", time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"critical":{"identity":{"docker-reference":"localhost:5000/quiet"},"image":{"docker-manifest-digest":"` + digestOf([]byte("image")) +
		`"},"type":"cosign container image signature"},"optional":{"expires":"2030-01-02T03:04:05Z"}}`
	if string(s.Payload) != want {
		t.Errorf("payload %s\nwant    %s", s.Payload, want)
	}
	if s, err = Sign(key, []byte("image"), "quiet", time.Time{}); err != nil || !bytes.HasSuffix(s.Payload, []byte(`"optional":null}`)) {
		t.Errorf("payload %s, %v", s.Payload, err)
	}
}

// TestClaims: what was signed for another purpose does not count.
func TestClaims(t *testing.T) {
	good := `{"critical":{"image":{"docker-manifest-digest":"sha256:x"},"type":"cosign container image signature"}}`
	in := `{"predicateType":%q,"subject":[{"digest":{"sha256":"x"}}%s]}`
	for name, c := range map[string]struct {
		s    Signature
		says string
	}{
		"simple":           {Signature{Payload: []byte(good)}, ""},
		"another type":     {Signature{Payload: []byte(strings.Replace(good, "cosign container", "atomic container", 1))}, "of type"},
		"no JSON":          {Signature{Payload: []byte("x")}, "payload"},
		"bad expiry":       {Signature{Payload: []byte(strings.TrimSuffix(good, "}") + `,"optional":{"expires":"soon"}}`)}, "want a time"},
		"expiry no text":   {Signature{Payload: []byte(strings.TrimSuffix(good, "}") + `,"optional":{"expires":5}}`)}, "want a time"},
		"envelope":         {Signature{Type: typeInToto, Payload: fmt.Appendf(nil, in, predicateSign, "")}, ""},
		"an SBOM":          {Signature{Type: typeInToto, Payload: fmt.Appendf(nil, in, "https://spdx.dev/Document", "")}, "spdx"},
		"two subjects":     {Signature{Type: typeInToto, Payload: fmt.Appendf(nil, in, predicateSign, `,{"digest":{"sha256":"y"}}`)}, "2 subjects"},
		"unknown envelope": {Signature{Type: "text/plain", Payload: []byte(good)}, "text/plain"},
	} {
		got, _, err := c.s.claim()
		if c.says == "" && (err != nil || got != "sha256:x") || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

func FuzzSignature(f *testing.F) {
	f.Add([]byte(`{"dsseEnvelope":{"payload":"e30=","payloadType":"application/vnd.in-toto+json","signatures":[{"sig":"AA=="}]}}`))
	f.Add([]byte(`{"critical":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := bundleSignatures(data)
		if err == nil {
			for i := range list {
				_, _, _ = list[i].claim()
				_ = list[i].signed()
			}
		}
		s := Signature{Payload: data}
		if digest, _, err := s.claim(); err == nil && !json.Valid(data) {
			t.Errorf("claims %s", digest)
		}
	})
}
