package catalog

import (
	"errors"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/seal"
)

// made writes and seals a bundle of some plugins below dir.
func made(t testing.TB, dir, name, version, more string, plugins ...string) string {
	t.Helper()
	dir = filepath.Join(dir, name)
	text := "apiVersion: kernel.pintle.dev/v1alpha1\nkind: PluginManifest\nname: " + name + "\nversion: " + version + "\n" + more + "plugins:\n"
	for _, p := range plugins {
		text += "- {name: " + p + ", kind: proxy}\n"
	}
	for file, text := range map[string]string{manifest.File: text, name: "#!/bin/sh\necho " + version + "\n"} {
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, file), []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if err := seal.Seal(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Nothing that is installed takes the name of what is there, unless an operator
// says that it takes the place of a bundle of plugins.directories.
func TestNoNameTakesAnothersPlace(t *testing.T) {
	standard := t.TempDir()
	made(t, standard, "proxies", "1.0.0", "privileged: true\n", "iptables", "userspace")
	made(t, standard, "controllers", "1.0.0", "", "deployment")
	made(t, standard, "classic", "1.0.0", "", "HostName") // there, and not configured
	for _, test := range []struct {
		what, name string
		plugins    []string
		options    InstallOptions
		says       string // empty: it is taken
	}{
		{"a bundle's name", "proxies", []string{"iptables", "userspace"}, InstallOptions{}, "is a bundle of that name in plugins.directories"},
		{"beside it", "proxies", []string{"iptables", "userspace"}, InstallOptions{Beside: true}, ""},
		{"in its place", "proxies", []string{"iptables", "userspace"}, InstallOptions{Replace: true}, ""},
		{"one that is not configured", "classic", []string{"HostName"}, InstallOptions{}, "is a bundle of that name in plugins.directories"},
		{"a plugin that is called as a bundle", "mine", []string{"controllers"}, InstallOptions{}, "its plugin controllers has the name of another bundle"},
		{"in the place of nobody", "mine", []string{"controllers"}, InstallOptions{Replace: true, Downgrade: true}, "its plugin controllers has the name of another bundle"},
		{"a bundle that is called as a plugin", "deployment", []string{"mine"}, InstallOptions{}, "bundle controllers, which the configuration names, has a plugin of that name"},
		{"another's plugin", "mine", []string{"deployment"}, InstallOptions{}, "its plugin deployment is also in bundle controllers"},
		{"an installed plugin", "mine", []string{"Here"}, InstallOptions{}, "its plugin Here is also in bundle here, which is installed"},
		{"an installed bundle", "mine", []string{"here"}, InstallOptions{}, "its plugin here has the name of another bundle"},
		{"its own name", "mine", []string{"mine"}, InstallOptions{}, ""},
		{"one that nobody loads", "mine", []string{"HostName"}, InstallOptions{}, ""},
	} {
		t.Run(test.what, func(t *testing.T) {
			c := newCatalog(t, PolicyOff)
			c.cfg.Directories, c.cfg.Bundles = []string{standard}, []string{"proxies", "controllers"}
			install(t, c, made(t, t.TempDir(), "here", "1.0.0", "", "Here"))
			_, err := c.Install(t.Context(), made(t, t.TempDir(), test.name, "9.9.9", "", test.plugins...), test.options)
			lock, lockErr := c.Lock()
			if lockErr != nil {
				t.Fatal(lockErr)
			}
			if test.says != "" {
				wants(t, err, ErrOperator, test.says)
				if lock.Bundle(test.name) != nil {
					t.Error("it is in the lock")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Replaces(test.name); got != test.options.Replace {
				t.Errorf("replaces: %v, want %v", got, test.options.Replace)
			}
		})
	}
}

// A bundle that is installed is not granted what the configuration grants to its
// name: the grant has to name its digest.
func TestGrantsAreNotInherited(t *testing.T) {
	standard := t.TempDir()
	made(t, standard, "proxies", "1.0.0", "privileged: true\n", "iptables")
	for _, test := range []struct {
		what    string
		replace bool
		digest  string
		want    string // version that is in force, or the refusal
	}{
		{"installed beside", false, "", "1.0.0"},
		{"in its place", true, "", "and this one is installed; if it is meant, put digest: "},
		{"granted by its digest", true, "its own", "9.9.9"},
		{"beside, and granted by its digest", false, "its own", "9.9.9"},
	} {
		t.Run(test.what, func(t *testing.T) {
			c := newCatalog(t, PolicyOff)
			c.cfg.Directories = []string{standard}
			got, err := c.Install(t.Context(), made(t, t.TempDir(), "proxies", "9.9.9", "privileged: true\n", "iptables"), InstallOptions{Replace: test.replace, Beside: !test.replace})
			if err != nil {
				t.Fatal(err)
			}
			digest := test.digest
			if digest == "its own" {
				digest = got.Digest
			}
			h, err := plugin.New(plugin.Config{
				Directories: []string{standard}, Proxies: []string{"iptables"},
				Bundles: []plugin.BundleConfig{{Name: "proxies", Privileged: true, Digest: digest, Granted: digest}},
			}, plugin.Deps{Bundles: c})
			if err != nil {
				if !strings.Contains(err.Error(), test.want) {
					t.Errorf("refused: %v, want %q", err, test.want)
				}
				return
			}
			if version := h.Plugins()[0].Status.Version; version != test.want {
				t.Errorf("version %s is in force, want %q", version, test.want)
			}
		})
	}
}

// A lower version takes a higher one's place only when an operator says so.
func TestDowngradeIsSaid(t *testing.T) {
	for _, test := range []struct {
		before, now string
		options     InstallOptions
		refused     bool
	}{
		{"1.0.0", "1.0.1", InstallOptions{}, false},
		{"1.10.0", "1.9.0", InstallOptions{}, true},
		{"1.10.0", "1.9.0", InstallOptions{Downgrade: true}, false},
		{"1.10.0", "1.9.0", InstallOptions{Beside: true}, false},
		{"1.0.0", "1.0.0-rc.1", InstallOptions{}, true},
		{"1.0.0-rc.1", "1.0.0", InstallOptions{}, false},
		{"1.0", "1.0.1", InstallOptions{}, false},
		{"1.0.0", "newest", InstallOptions{}, true},
		{"newest", "1.0.0", InstallOptions{}, true},
		{"1", "2", InstallOptions{}, false},
		{"2", "1.9", InstallOptions{}, true},
	} {
		t.Run(test.before+" "+test.now, func(t *testing.T) {
			c := newCatalog(t, PolicyOff)
			install(t, c, made(t, t.TempDir(), "mine", test.before, "", "Mine"))
			_, err := c.Install(t.Context(), made(t, t.TempDir(), "mine", test.now, "", "Mine"), test.options)
			if test.refused {
				wants(t, err, ErrOperator, test.before, "--downgrade")
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// Who is asked sees what the package asks for and what is in use, before anything
// is changed; a no leaves nothing behind.
func TestOperatorIsAsked(t *testing.T) {
	c := newCatalog(t, PolicyOff)
	install(t, c, made(t, t.TempDir(), "mine", "1.0.0", "", "Mine"))
	before, err := os.ReadDir(filepath.Join(c.cfg.Directory, bundlesFolder))
	if err != nil {
		t.Fatal(err)
	}
	no := errors.New("no")
	_, err = c.Install(t.Context(), made(t, t.TempDir(), "mine", "2.0.0", "privileged: true\n", "Mine"), InstallOptions{Confirm: func(a *Asked) error {
		if a.Current == nil || a.Current.Version != "1.0.0" || len(a.Manifest.Asks()) != 1 {
			t.Errorf("asked %+v", a)
		}
		return no
	}})
	if !errors.Is(err, no) {
		t.Fatalf("%v, want the operator's no", err)
	}
	lock, err := c.Lock()
	if err != nil || lock.Bundle("mine").Version.Version != "1.0.0" || len(lock.Bundle("mine").Beside) > 0 {
		t.Errorf("lock %+v, %v", lock, err)
	}
	if after, err := os.ReadDir(filepath.Join(c.cfg.Directory, bundlesFolder)); err != nil || len(after) != len(before) {
		t.Errorf("in the catalog: %v, %v", after, err)
	}
}

// A registry cannot answer with another bundle, or another version, that the same
// key has signed.
func TestSignedUnderAnotherName(t *testing.T) {
	host := registryOf(t, func(h http.Handler) http.Handler { return h })
	key, public := keys(t)
	quiet, other := made(t, t.TempDir(), "quiet", "1.2.0", "", "Quiet"), made(t, t.TempDir(), "other", "1.2.0", "", "Other")
	for _, test := range []struct {
		what, dir, pushed string
		says              string // empty: it is taken
	}{
		{"itself", quiet, "quiet:1.2.0", ""},
		{"by a moving tag", quiet, "quiet:latest", ""},
		{"by part of its version", quiet, "quiet:1", ""},
		{"with a v", quiet, "quiet:v1.2.0", ""},
		{"signed for a repository of another name", other, "tools/another:1.2.0", ""},
		{"an older version", quiet, "quiet:1.3.0", "version 1.3.0 was asked for, and it is 1.2.0"},
	} {
		t.Run(test.what, func(t *testing.T) {
			reference := host + "/" + test.pushed
			push(t, test.dir, reference, PackOptions{Key: key})
			c := newCatalog(t, PolicyRequire, public)
			_, err := c.Install(t.Context(), reference, InstallOptions{})
			if test.says != "" {
				wants(t, err, ErrSignature, test.says)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			lock, err := c.Lock()
			if err != nil || lock.Bundles[0].Reference != reference {
				t.Errorf("lock %+v, %v: want the reference %s", lock, err, reference)
			}
			if _, err := c.Find(path.Base(test.dir), "", ""); err != nil {
				t.Errorf("at the next start: %v", err)
			}
		})
	}
	// What was signed as other, at the place of quiet.
	m, err := manifest.Read(filepath.Join(other, manifest.File))
	if err != nil {
		t.Fatal(err)
	}
	for _, signed := range []string{"other", "registry.example.com/plugins/other"} {
		s, err := Sign(key, []byte("{}"), signed, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if says := s.misnamed(m, host+"/plugins/quiet:1.2.0"); !strings.Contains(says, "quiet was asked for, and it is other") {
			t.Errorf("signed as %s: %q", signed, says)
		}
		if says := s.misnamed(m, host+"/plugins/other:1.2.0"); says != "" {
			t.Errorf("signed as %s: %q", signed, says)
		}
	}
	s, err := Sign(key, []byte("{}"), "quiet", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if says := s.misnamed(m, ""); !strings.Contains(says, "signed as \"quiet\"") {
		t.Errorf("a file: %q", says)
	}
}
