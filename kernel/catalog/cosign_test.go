package catalog

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestCosign lets cosign itself sign and verify, where it is installed.
func TestCosign(t *testing.T) {
	cosign, err := exec.LookPath("cosign")
	if err != nil {
		t.Skip("cosign is not installed")
	}
	host := registryOf(t, nil)
	work := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), cosign, args...)
		cmd.Dir = work
		cmd.Env = append(os.Environ(), "COSIGN_PASSWORD=secret", "HOME="+work)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("cosign %v: %v\n%s", args, err, out)
		}
	}
	dir := bundle(t, "1.0.0")
	t.Run("verifies ours", func(t *testing.T) {
		key, public := keys(t)
		pushed := push(t, dir, host+"/ours:1", PackOptions{Key: key})
		run("verify", "--key", public, "--insecure-ignore-tlog", "--allow-http-registry", pushed.Reference)
	})
	run("generate-key-pair")
	private, public := filepath.Join(work, "cosign.key"), filepath.Join(work, "cosign.pub")
	for name, how := range map[string][]string{
		"simple signing":  {"--new-bundle-format=false", "--use-signing-config=false"},
		"sigstore bundle": {"--new-bundle-format=true", "--use-signing-config=false"},
	} {
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
