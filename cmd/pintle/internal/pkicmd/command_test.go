package pkicmd

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pintle.dev/pintle/kernel/api/auth/credentials"
	"pintle.dev/pintle/kernel/api/auth/pki"
)

func runPKI(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := New()
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// What the commands do on a directory without a kernel, and what they refuse.
func TestPKI(t *testing.T) {
	data := t.TempDir()
	dir := filepath.Join(data, "pki")
	p, err := pki.Open(pki.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, stranger, text := filepath.Join(data, "k"), filepath.Join(data, "s"), filepath.Join(data, "t")
	if err := p.WriteSuperAdminKubeconfig(kubeconfig, "https://127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	other, err := pki.Open(pki.Config{Dir: filepath.Join(t.TempDir(), "pki")})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.WriteAdminKubeconfig(stranger, "https://127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(text, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	signing := func() string {
		listed, err := listCredentials(dir)
		if err != nil {
			t.Fatal(err)
		}
		return listed.TokenKeys[0].ID
	}
	for _, tt := range []struct {
		args      []string
		want, err string
	}{
		{[]string{"list"}, "kubernetes-admin, pintle:cluster-admins", ""},
		{[]string{"renew", "admin", "admin"}, "no kernel runs there: in force from its next start on", ""},
		{[]string{"renew"}, "", "or --all"},
		{[]string{"renew", "admin", "--all"}, "", "or --all"},
		{[]string{"renew", "ca"}, "", "neither renewed nor revoked"},
		{[]string{"revoke", "--help"}, "joined with pintle node read the list", ""},
		{[]string{"revoke"}, "", "want names of certificates"},
		{[]string{"revoke", "nobody"}, "", "there is none"},
		{[]string{"revoke", "--serial", "12"}, "", "at least 6 digits"},
		{[]string{"revoke", "--file", stranger}, "", "not of the cluster's CA"},
		{[]string{"revoke", "--file", text}, "", "neither a certificate nor a kubeconfig"},
		{[]string{"revoke", "--file", filepath.Join(data, "absent")}, "", "no such file"},
		{[]string{"revoke", "--file", kubeconfig}, "super-admin renewed", ""},
		{[]string{"revoke", "--file", filepath.Join(dir, "admin.crt")}, "admin renewed", ""},
		{[]string{"revoke", "--serial", "0123456789abcdef01"}, "serial number 123456789abcdef01 revoked", ""},
		{[]string{"revoke", "--token-key", signing()}, "", "rotate it first"},
		{[]string{"revoke", "--token-key", "xx"}, "", "0 keys begin so"},
		{[]string{"rotate", "sa"}, "new token key", ""},
		{[]string{"rotate", "sa"}, "", "a rotation to key"},
		{[]string{"list", "-o", "yaml"}, "state: revoked", ""},
	} {
		out, err := runPKI(t, append(tt.args, "--data", data)...)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%q: %v, want %q", tt.args, err, tt.err)
			}
			continue
		}
		if err != nil || !strings.Contains(out, tt.want) {
			t.Errorf("%q: %v\n%s", tt.args, err, out)
		}
	}
	if out, err := runPKI(t, "list", "--data", t.TempDir()); err == nil || !strings.Contains(err.Error(), "no cluster's CA in") {
		t.Errorf("an empty directory: %v %s", err, out)
	}
	listed, err := listCredentials(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := renewable(listed); len(got) != 4 || len(formerSerials(listed)) != 1 || len(formerKeys(listed)) != 0 {
		t.Errorf("offered: %q %q %q", got, formerSerials(listed), formerKeys(listed))
	}
}

// A renewal that the kernel has not taken up is not called one.
func TestRenewedIn(t *testing.T) {
	p, err := pki.Open(pki.Config{Dir: filepath.Join(t.TempDir(), "pki")})
	if err != nil {
		t.Fatal(err)
	}
	made := []pki.Pair{p.Admin()}
	done := renewedIn(made, []string{"admin"})
	for used, want := range map[string]bool{hexadecimal(p.Admin().Cert.SerialNumber): true, "1": false, "": true} {
		if done(credentials.InForce{Certificates: map[string]string{"admin": used}}) != want {
			t.Errorf("in use %q: %v", used, !want)
		}
	}
}
