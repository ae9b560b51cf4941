package pullrecord

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

const (
	image = "registry.example.com/team/app:1"
	ref   = "sha256:app"
)

func open(t *testing.T, dir string, mode kubeletv1beta1.ImagePullCredentialsVerificationPolicy, allowed ...string) *Store {
	t.Helper()
	s, err := Open(dir, Policy{Mode: mode, Allowed: allowed})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func secret(uid, namespace, name, password string) Secret {
	return Secret{UID: uid, Namespace: namespace, Name: name, CredentialHash: Hash("bob", password)}
}

// TestMustPull: M8: who may use an image that somebody else's secret fetched.
func TestMustPull(t *testing.T) {
	const byDefault = kubeletv1beta1.NeverVerifyPreloadedImages
	ours := secret("1", "a", "pull", "right")
	for _, c := range []struct {
		name    string
		mode    kubeletv1beta1.ImagePullCredentialsVerificationPolicy
		allowed []string
		pull    func(*testing.T, *Store) // what was pulled before
		image   string                   // asked for; empty: the one pulled
		secrets []Secret
		want    bool
	}{
		{name: "loaded before", mode: byDefault},
		{name: "loaded before, always", mode: kubeletv1beta1.AlwaysVerify, want: true},
		{name: "loaded before, not allowed", mode: kubeletv1beta1.NeverVerifyAllowlistedImages, allowed: []string{"registry.example.com/other/*"}, want: true},
		{name: "loaded before, a name that only begins so", mode: kubeletv1beta1.NeverVerifyAllowlistedImages, allowed: []string{"registry.example.com/tea"}, want: true},
		{name: "loaded before, allowed by path", mode: kubeletv1beta1.NeverVerifyAllowlistedImages, allowed: []string{"registry.example.com/team/*"}},
		{name: "loaded before, allowed by name", mode: kubeletv1beta1.NeverVerifyAllowlistedImages, allowed: []string{"registry.example.com/team/app"}},
		{name: "pulled without credentials", mode: byDefault, pull: pulled(nil)},
		{name: "pulled with a secret, by a pod with none", mode: byDefault, pull: pulled(&ours), want: true},
		{name: "never verified", mode: kubeletv1beta1.NeverVerify, pull: pulled(&ours)},
		{name: "by the same secret", mode: byDefault, pull: pulled(&ours), secrets: []Secret{ours}},
		{name: "by another secret with the same credentials", mode: byDefault, pull: pulled(&ours), secrets: []Secret{secret("2", "b", "mine", "right")}},
		{name: "by the same secret with newer credentials", mode: byDefault, pull: pulled(&ours), secrets: []Secret{secret("1", "a", "pull", "newer")}},
		{name: "by a secret of that name in another namespace", mode: byDefault, pull: pulled(&ours), secrets: []Secret{secret("1", "b", "pull", "wrong")}, want: true},
		{name: "by a secret made anew under that name", mode: byDefault, pull: pulled(&ours), secrets: []Secret{secret("2", "a", "pull", "wrong")}, want: true},
		{name: "by a secret without a digest", mode: byDefault, pull: pulled(&Secret{UID: "9"}), secrets: []Secret{{UID: "8"}}, want: true},
		{name: "under another name of the same image", mode: byDefault, pull: pulled(nil), image: "registry.example.com/secret/app:1", want: true},
		{name: "under another tag", mode: byDefault, pull: pulled(&ours), image: "registry.example.com/team/app:2", secrets: []Secret{ours}},
		{name: "by its id", mode: byDefault, pull: pulled(&ours), image: "sha256:app", want: true},
		{name: "being pulled", mode: byDefault, pull: func(t *testing.T, s *Store) {
			if err := s.Intend(image); err != nil {
				t.Fatal(err)
			}
		}, want: true},
		{name: "a pull failed", mode: byDefault, pull: func(t *testing.T, s *Store) {
			if err := s.Intend(image); err != nil {
				t.Fatal(err)
			}
			if err := s.Failed(image); err != nil {
				t.Fatal(err)
			}
		}},
		{name: "a damaged record", mode: byDefault, pull: func(t *testing.T, s *Store) {
			if err := os.WriteFile(file(s.pulled, ref), []byte(`{"imageRef":`), 0o600); err != nil {
				t.Fatal(err)
			}
		}, want: true},
		{name: "the record of another image", mode: byDefault, pull: func(t *testing.T, s *Store) {
			if err := os.WriteFile(file(s.pulled, ref), []byte(`{"imageRef":"sha256:x","credentialMapping":{"registry.example.com/team/app":{"nodePodsAccessible":true}}}`), 0o600); err != nil {
				t.Fatal(err)
			}
		}, want: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir, c.mode, c.allowed...)
			if c.pull != nil {
				c.pull(t, s)
			}
			asked := c.image
			if asked == "" {
				asked = image
			}
			for _, when := range []string{"now", "again", "after a restart"} {
				if when == "after a restart" {
					s = open(t, dir, c.mode, c.allowed...)
				}
				if got, err := s.MustPull(asked, ref, c.secrets); got != c.want {
					t.Errorf("%s: must pull %t, want %t (%v)", when, got, c.want, err)
				}
			}
		})
	}
}

func pulled(with *Secret) func(*testing.T, *Store) {
	return func(t *testing.T, s *Store) {
		t.Helper()
		if err := s.Intend(image); err != nil {
			t.Fatal(err)
		}
		if err := s.Pulled(image, ref, with); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRecordsAreKept: nobody but the node's root reads them, passwords are not in them, what a crash left of a pull is
// verified, and records of images that are gone go.
func TestRecordsAreKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "image_manager")
	s := open(t, dir, kubeletv1beta1.NeverVerifyPreloadedImages)
	ours := secret("1", "a", "pull", "hunter2")
	pulled(&ours)(t, s)
	if err := s.Intend("docker.io/library/half:1"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.pulled, "sha256-x.tmp"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
		if !d.IsDir() {
			if data, err := os.ReadFile(path); err != nil || strings.Contains(string(data), "hunter2") {
				t.Errorf("%s: %s, %v", path, data, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	s = open(t, dir, kubeletv1beta1.NeverVerifyPreloadedImages)
	if err := s.Recover([]Image{{"sha256:half", []string{"half:1"}}, {ref, []string{image}}}); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		image, ref string
		want       bool
	}{{"half:1", "sha256:half", true}, {image, ref, false}, {"never:1", "sha256:never", false}} {
		if got, err := s.MustPull(c.image, c.ref, []Secret{ours}); got != c.want || err != nil {
			t.Errorf("%d: must pull %s: %t, %v", i, c.image, got, err)
		}
	}
	if left, err := os.ReadDir(s.pulling); err != nil || len(left) != 0 {
		t.Errorf("intents %v, %v", left, err)
	}
	s.now = func() time.Time { return time.Now().Add(-time.Hour) }
	if err := s.Intend("old:1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Pulled("old:1", "sha256:old", nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Prune([]string{ref}, time.Now().Add(-time.Minute)); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(s.pulled); err != nil || len(left) != 2 { // ref stays, half was written just now
		t.Errorf("records %v, %v", left, err)
	}
}

// TestPolicy: what is no policy is refused.
func TestPolicy(t *testing.T) {
	for pattern, ok := range map[string]bool{
		"registry.example.com/team/app": true, "registry.example.com/team/*": true, "registry.example.com/*": true,
		"": false, "*": false, "/*": false, " a.io/x": false, "a.io/*/x": false, "a.io/x:1": false, "a.io/x*": false,
	} {
		err := Policy{Mode: kubeletv1beta1.NeverVerifyAllowlistedImages, Allowed: []string{pattern}}.Check()
		if (err == nil) != ok {
			t.Errorf("%q: %v", pattern, err)
		}
	}
	if err := (Policy{Mode: "Sometimes"}).Check(); err == nil {
		t.Error("an unknown mode is taken")
	}
}
