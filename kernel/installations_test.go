package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/kernel/catalog"
	"pintle.dev/pintle/kernel/inspect"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/operate"
	"pintle.dev/pintle/kernel/plugin/seal"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// versionedBundle is a bundle of the greeter's process, which admits pods, in a
// version; one that is broken ends when it is started.
func versionedBundle(t *testing.T, name, version string, broken bool) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	original, err := os.ReadFile("plugin/testdata/greeter/manifest.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(original), "name: greeter", "name: "+name, 1)
	text = strings.Replace(text, "version: 1.0.0", "version: "+version, 1)
	if !strings.Contains(text, "version: "+version) {
		t.Fatalf("the manifest has no version to replace:\n%s", text)
	}
	if err := os.WriteFile(filepath.Join(dir, manifest.File), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, name)
	if broken {
		err = os.WriteFile(program, []byte("#!/bin/sh\necho 'panic: on purpose' >&2\nexit 2\n"), 0o755)
	} else if out, buildErr := exec.Command("go", "build", "-ldflags=-s -w -X main.version="+version, "-o", program, "./plugin/testdata/greeter").CombinedOutput(); buildErr != nil {
		err = fmt.Errorf("%w\n%s", buildErr, out)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := seal.Seal(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// installer installs as pintle plugin install does beside a running kernel.
type installer struct {
	*catalog.Catalog
	lock string
}

func (r *runningKernel) installer(t *testing.T) *installer {
	t.Helper()
	cfg := r.config()
	at := catalog.Config{Directory: cfg.Plugins.Catalog, LockFile: cfg.Plugins.LockFile}
	c, err := catalog.New(at, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &installer{c, at.LockFile}
}

func (r *runningKernel) install(t *testing.T, source string) error {
	t.Helper()
	client, err := inspect.Dial(r.rest(administrator))
	if err != nil {
		t.Fatal(err)
	}
	o := catalog.InstallOptions{}
	o.Try = func(ctx context.Context, got *catalog.Installed) error {
		return operate.Try(ctx, client, operate.Installation{Bundle: got.Name, Digest: got.Digest})
	}
	o.Loaded = func(ctx context.Context, got *catalog.Installed) error {
		return operate.Load(ctx, client, operate.Installation{Bundle: got.Name, Digest: got.Digest})
	}
	_, err = r.installer(t).Install(t.Context(), source, o)
	return err
}

// rest is a way to the kernel as somebody.
func (r *runningKernel) rest(u user.Info) *rest.Config { return r.api.ClientConfig(u) }

func (r *runningKernel) plugins(t *testing.T) *operate.Client {
	t.Helper()
	c, err := operate.New(r.rest(administrator))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// awaitPlugin waits until a plugin's object is as wanted.
func awaitPlugin(t *testing.T, c *operate.Client, name string, want func(*v1alpha1.Plugin) bool) *v1alpha1.Plugin {
	t.Helper()
	var o *v1alpha1.Plugin
	var err error
	for limit := time.Now().Add(2 * time.Minute); time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
		if o, err = c.Get(t.Context(), name); err == nil && want(o) {
			return o
		}
	}
	t.Fatalf("plugin %s is not as wanted: %v\n%+v", name, err, o)
	return nil
}

// A refused installation is told at once in the kernel's words and leaves the lock, a
// refused upgrade leaves the spec, and after a restart the former version reviews.
func TestRefusedChangesLeaveEverythingAsItWas(t *testing.T) {
	data := t.TempDir()
	const text = "logging: {level: info}\n"
	k := runKernel(t, data, text)
	k.awaitReady(t)
	if err := k.install(t, versionedBundle(t, "greeter", "1.0.0", false)); err != nil {
		t.Fatal(err)
	}
	c := k.plugins(t)
	const name = "label"
	awaitPlugin(t, c, name, func(*v1alpha1.Plugin) bool { return true })
	o, err := c.Change(t.Context(), name, operate.Enable(nil, 0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Await(t.Context(), o, nil); err != nil {
		t.Fatal(err)
	}
	lockFile := k.installer(t).lock
	before, err := os.ReadFile(lockFile)
	if err != nil {
		t.Fatal(err)
	}

	bad := versionedBundle(t, "greeter", "2.0.0", true)
	var refused *operate.RefusedError
	err = k.install(t, bad)
	if !errors.As(err, &refused) || !strings.Contains(refused.Message, "plugin bundle greeter") {
		t.Fatalf("installation of a version that cannot start: %v, want the kernel's refusal of this bundle", err)
	}
	if after, _ := os.ReadFile(lockFile); string(after) != string(before) {
		t.Errorf("the lock was changed by a refused installation:\n%s", after)
	}

	// Beside, it can be named by an upgrade, which is refused as well.
	if _, err := k.installer(t).Install(t.Context(), bad, catalog.InstallOptions{Beside: true}); err != nil {
		t.Fatal(err)
	}
	if err := k.relock(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Change(t.Context(), name, operate.Upgrade("2.0.0", "")); !errors.As(err, &refused) {
		t.Fatalf("upgrade to a version that cannot start: %v, want a refusal", err)
	}
	// Somebody without the words of an administrator may try nothing.
	stranger, err := inspect.Dial(k.rest(&user.DefaultInfo{Name: "eve", Groups: []string{"system:authenticated"}}))
	if err != nil {
		t.Fatal(err)
	}
	if err := operate.Load(t.Context(), stranger, operate.Installation{Bundle: "greeter"}); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("a stranger loads: %v", err)
	}

	if o, err = c.Get(t.Context(), name); err != nil || o.Spec.Version != "" || o.Status.Version != "1.0.0" {
		t.Fatalf("version %q asked, %q in force, %v; want none and 1.0.0", o.Spec.Version, o.Status.Version, err)
	}
	k.stop()

	// A lock that somebody broke by hand meets the version that ran before.
	if _, err := k.installer(t).Install(t.Context(), bad, catalog.InstallOptions{}); err != nil {
		t.Fatal(err)
	}
	again := runKernel(t, data, text)
	again.awaitReady(t)
	c = again.plugins(t)
	o = awaitPlugin(t, c, name, func(o *v1alpha1.Plugin) bool { return o.Status.State == v1alpha1.PluginStateReady })
	if o.Status.Version != "1.0.0" {
		t.Errorf("version %s is in force, want 1.0.0", o.Status.Version)
	}
	list, _ := again.host.Admissions()
	if len(list) != 1 || list[0].Name() != name {
		t.Errorf("admission plugins %v, want %s", list, name)
	}
	if err := again.install(t, versionedBundle(t, "greeter", "3.0.0", false)); err != nil {
		t.Errorf("a sound version: %v", err)
	}
	awaitPlugin(t, c, name, func(o *v1alpha1.Plugin) bool { return o.Status.Version == "3.0.0" })
}

// A kernel without controllers takes pods when service accounts are left out, as
// configs/minimal.yaml says.
func TestPodsWithoutServiceAccounts(t *testing.T) {
	k := runKernel(t, t.TempDir(), "admission: {disable: [ServiceAccount]}\n")
	k.awaitReady(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if _, err := k.as(t, administrator).CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// A bundle that was installed and cannot be used is shown with the reason and the
// command that removes it, and keeps nobody else out.
func TestBrokenBundleIsShown(t *testing.T) {
	t.Run("clash", func(t *testing.T) {
		// The configuration gets a bundle with the same plugin.
		data, folder := t.TempDir(), t.TempDir()
		k := runKernel(t, data, "logging: {level: info}\n")
		k.awaitReady(t)
		if err := k.install(t, versionedBundle(t, "twin", "1.0.0", false)); err != nil {
			t.Fatal(err)
		}
		k.stop()
		if err := os.CopyFS(filepath.Join(folder, "other"), os.DirFS(versionedBundle(t, "other", "1.0.0", false))); err != nil {
			t.Fatal(err)
		}
		shownUntilRemoved(t, runKernel(t, data, "plugins: {directories: ["+folder+"], bundles: [{name: other}]}\n"), "twin", "twin", "is in bundle other and in bundle twin", false)
	})
	torn := func(dir string) error { return overwrite(filepath.Join(dir, manifest.File), "plugins: [") }
	for name, c := range map[string]struct {
		shown, enabled bool // before its files changed
		spoil          func(dir string) error
		plugin, fault  string
	}{
		"torn manifest":                   {false, false, torn, "greeter", manifest.File},
		"torn manifest of shown plugins":  {true, false, torn, "label", manifest.File},
		"no artefact":                     {false, false, func(dir string) error { return os.Remove(filepath.Join(dir, "greeter")) }, "greeter", "no such file"},
		"changed bytes, no other version": {true, true, func(dir string) error { return overwrite(filepath.Join(dir, "greeter"), "#!/bin/sh\nsleep 99\n") }, "label", "digest mismatch"},
	} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			k := runKernel(t, data, "logging: {level: info}\n")
			k.awaitReady(t)
			source := versionedBundle(t, "greeter", "1.0.0", false)
			if c.shown {
				if err := k.install(t, source); err != nil {
					t.Fatal(err)
				}
				awaitPlugin(t, k.plugins(t), "label", func(o *v1alpha1.Plugin) bool { return o.Status.State == v1alpha1.PluginStateDisabled })
			}
			if c.enabled {
				o, err := k.plugins(t).Change(t.Context(), "label", operate.Enable(nil, 0))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := k.plugins(t).Await(t.Context(), o, nil); err != nil {
					t.Fatal(err)
				}
			}
			k.stop()
			got, err := k.installer(t).Install(t.Context(), source, catalog.InstallOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.Chmod(got.Directory, 0o755), c.spoil(got.Directory)); err != nil {
				t.Fatal(err)
			}
			shownUntilRemoved(t, runKernel(t, data, "logging: {level: info}\n"), "greeter", c.plugin, c.fault, c.enabled)
		})
	}
}

// overwrite changes a file of the catalog, which is read-only.
func overwrite(path, text string) error {
	return errors.Join(os.Chmod(path, 0o755), os.WriteFile(path, []byte(text), 0o755))
}

// shownUntilRemoved waits until a plugin has failed for a reason, takes its bundle
// away, and waits until it is not shown any more. An admission plugin that somebody
// enabled stays: requests are refused rather than not reviewed.
func shownUntilRemoved(t *testing.T, k *runningKernel, bundle, name, fault string, enabled bool) {
	t.Helper()
	k.awaitReady(t)
	c := k.plugins(t)
	o := awaitPlugin(t, c, name, func(o *v1alpha1.Plugin) bool { return o.Status.State == v1alpha1.PluginStateFailed })
	if !strings.Contains(o.Status.Message, fault) || !strings.Contains(o.Status.Message, "pintle plugin remove "+bundle) {
		t.Errorf("message %q, want %q and the command", o.Status.Message, fault)
	}
	if enabled {
		return
	}
	if _, err := k.installer(t).Remove(bundle); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := c.Get(t.Context(), name); err != nil && strings.Contains(err.Error(), "not found") {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("object %s of the removed bundle stays", name)
		}
	}
}
