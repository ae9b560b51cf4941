package catalog

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content/oci"
	"oras.land/oras-go/v2/registry/remote"

	"oras.land/oras-go/v2"
	"pintle.dev/pintle/kernel/plugin/manifest"
)

// update has cosign sign anew what TestCosignFixture reads.
var update = flag.Bool("update", false, "write testdata/cosign anew, with cosign")

// ways are the arguments that make cosign sign in each of its forms.
var ways = map[string][]string{
	"simple signing":  {"--new-bundle-format=false", "--use-signing-config=false"},
	"sigstore bundle": {"--new-bundle-format=true", "--use-signing-config=false"},
}

// cosignIn returns a function that runs cosign in a folder; it skips the test
// where cosign is missing.
func cosignIn(t *testing.T, folder string) func(args ...string) {
	cosign, err := exec.LookPath("cosign")
	if err != nil {
		t.Skip("cosign is not installed; make test-cosign builds it")
	}
	return func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), cosign, args...)
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), "COSIGN_PASSWORD=secret", "HOME="+folder)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("cosign %v: %v\n%s", args, err, out)
		}
	}
}

// TestCosign lets cosign itself sign and verify, where it is installed.
func TestCosign(t *testing.T) {
	work := t.TempDir()
	run := cosignIn(t, work)
	host := registryOf(t, nil)
	dir := bundle(t, "1.0.0")
	t.Run("verifies ours", func(t *testing.T) {
		key, public := keys(t)
		pushed := push(t, dir, host+"/ours:1", PackOptions{Key: key})
		run("verify", "--key", public, "--insecure-ignore-tlog", "--allow-http-registry", pushed.Reference)
	})
	run("generate-key-pair")
	private, public := filepath.Join(work, "cosign.key"), filepath.Join(work, "cosign.pub")
	for name, how := range ways {
		t.Run("signs in "+name, func(t *testing.T) {
			pushed := push(t, dir, host+"/"+filepath.Base(t.TempDir())+name[:6]+":1", PackOptions{})
			strict := newCatalog(t, PolicyRequire, public)
			_, err := strict.Install(t.Context(), pushed.Reference, InstallOptions{})
			wants(t, err, ErrSignature, "no signature")
			run(append(append([]string{"sign", "--key", private, "--tlog-upload=false", "--allow-http-registry", "--yes"}, how...), pushed.Reference)...)
			got := install(t, strict, pushed.Reference)
			if _, err := strict.Find("quiet", "", ""); err != nil || got.Signature == nil {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	t.Run("its key signs here", func(t *testing.T) {
		key, err := ReadPrivateKey(private, secret("secret"))
		if err != nil {
			t.Fatal(err)
		}
		pushed := push(t, dir, host+"/key:1", PackOptions{Key: key})
		install(t, newCatalog(t, PolicyRequire, public), pushed.Reference)
		run("verify", "--key", public, "--insecure-ignore-tlog", "--allow-http-registry", pushed.Reference)
	})
}

// fixture is what cosign wrote: a bundle that it signed in both of its forms, in
// an image layout, and the keys that it made.
const fixture = "testdata/cosign"

// TestCosignFixture: signatures of cosign 3.1.3 and its key pair are read without
// it. A foreign key, a changed payload and another image are refused.
func TestCosignFixture(t *testing.T) {
	host := registryOf(t, nil)
	if *update {
		writeFixture(t, host)
	}
	stored, err := oci.NewFromFS(t.Context(), os.DirFS(filepath.Join(fixture, "layout")))
	if err != nil {
		t.Fatal(err)
	}
	desc, err := stored.Resolve(t.Context(), "quiet")
	if err != nil {
		t.Fatal(err)
	}
	image := fetched(t, stored, desc)
	public := filepath.Join(fixture, "cosign.pub")
	key, err := ReadPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	_, foreignFile := keys(t)
	foreign, err := ReadPublicKey(foreignFile)
	if err != nil {
		t.Fatal(err)
	}
	// Two registries that hold the image, each with a signature of one form.
	simple, bundled := plainRepository(t, host, "simple/quiet"), plainRepository(t, host, "bundled/quiet")
	if _, err := oras.Copy(t.Context(), stored, "quiet", simple, "1", oras.DefaultCopyOptions); err != nil {
		t.Fatal(err)
	}
	tag := signatureTag(desc.Digest.String())
	if _, err := oras.Copy(t.Context(), stored, tag, simple, tag, oras.DefaultCopyOptions); err != nil {
		t.Fatal(err)
	}
	if _, err := oras.ExtendedCopy(t.Context(), stored, "quiet", bundled, "1", oras.DefaultExtendedCopyOptions); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, kind string
		from       *remote.Repository
	}{{"simple signing", "", simple}, {"sigstore bundle", typeInToto, bundled}} {
		t.Run(c.name, func(t *testing.T) {
			signatures, err := fetchSignatures(t.Context(), c.from, desc)
			if err != nil || len(signatures) != 1 || signatures[0].Type != c.kind {
				t.Fatalf("signatures %+v, %v; want one of type %q", signatures, err, c.kind)
			}
			changed := signatures[0]
			changed.Payload = []byte(strings.Replace(string(changed.Payload), strings.TrimPrefix(desc.Digest.String(), "sha256:"), strings.Repeat("0", 64), 1))
			other := append([]byte(" "), image...)
			for name, v := range map[string]struct {
				image      []byte
				signatures []Signature
				keys       []*PublicKey
				says       string
			}{
				"good":            {image, signatures, []*PublicKey{foreign, key}, ""},
				"foreign key":     {image, signatures, []*PublicKey{foreign}, "by none of the 1 known keys"},
				"changed payload": {image, []Signature{changed}, []*PublicKey{key}, "by none of the 1 known keys"},
				"another image":   {other, signatures, []*PublicKey{key}, "is over " + desc.Digest.String()},
			} {
				got, err := verify(&manifest.Manifest{Name: "quiet"}, "", v.image, v.signatures, v.keys, time.Now())
				if v.says != "" {
					wants(t, err, ErrSignature, v.says)
				} else if err != nil || got.Key != key.ID || got.Expires != nil {
					t.Errorf("%s: %+v, %v; want key %s", name, got, err, key.ID)
				}
			}
			reference := host + "/" + c.from.Reference.Repository + ":1"
			got := install(t, newCatalog(t, PolicyRequire, public), reference)
			if got.Signature == nil || got.Signature.Key != key.ID {
				t.Errorf("installed with %+v, want key %s", got.Signature, key.ID)
			}
			_, err = newCatalog(t, PolicyRequire, foreignFile).Install(t.Context(), reference, InstallOptions{})
			wants(t, err, ErrSignature, "by none of the 1 known keys")
		})
	}
	t.Run("private key", func(t *testing.T) {
		file := filepath.Join(fixture, "cosign.key")
		if _, err := ReadPrivateKey(file, secret("other")); !errors.Is(err, ErrPassword) {
			t.Errorf("another password: %v", err)
		}
		private, err := ReadPrivateKey(file, secret("secret"))
		if err != nil || private.ID != key.ID {
			t.Fatalf("private key %+v, %v; want ID %s", private, err, key.ID)
		}
		sig, err := private.sign(image)
		if err != nil || !key.verifies(image, sig) || foreign.verifies(image, sig) {
			t.Errorf("signature %x, %v", sig, err)
		}
	})
}

func plainRepository(t *testing.T, host, name string) *remote.Repository {
	t.Helper()
	r, err := remote.NewRepository(host + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	r.PlainHTTP = true
	return r
}

func fetched(t *testing.T, from oras.ReadOnlyTarget, desc ocispec.Descriptor) []byte {
	t.Helper()
	_, data, err := oras.FetchBytes(t.Context(), from, desc.Digest.String(), oras.DefaultFetchBytesOptions)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// writeFixture has cosign make keys and sign, and stores what it wrote.
func writeFixture(t *testing.T, host string) {
	t.Helper()
	work := t.TempDir()
	run := cosignIn(t, work)
	run("generate-key-pair")
	pushed := push(t, bundle(t, "1.0.0"), host+"/fixture:1", PackOptions{})
	for _, how := range ways {
		run(append(append([]string{"sign", "--key", "cosign.key", "--tlog-upload=false", "--allow-http-registry", "--yes"}, how...), pushed.Reference)...)
	}
	layout := filepath.Join(fixture, "layout")
	if err := os.RemoveAll(layout); err != nil {
		t.Fatal(err)
	}
	to, err := oci.NewWithContext(t.Context(), layout)
	if err != nil {
		t.Fatal(err)
	}
	_, digest, _ := strings.Cut(pushed.Reference, "@")
	from, tag := plainRepository(t, host, "fixture"), signatureTag(digest)
	if _, err := oras.ExtendedCopy(t.Context(), from, "1", to, "quiet", oras.DefaultExtendedCopyOptions); err != nil {
		t.Fatal(err)
	}
	if _, err := oras.Copy(t.Context(), from, tag, to, tag, oras.DefaultCopyOptions); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"cosign.key", "cosign.pub"} {
		data, err := os.ReadFile(filepath.Join(work, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(fixture, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
