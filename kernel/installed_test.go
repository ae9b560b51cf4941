package kernel

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/kernel/plugin/operate"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// twin installs a bundle, and returns the configuration that names another one with
// the same plugins.
func (r *runningKernel) twin(t *testing.T, admission string) (text string) {
	t.Helper()
	if err := r.install(t, versionedBundle(t, "twin", "1.0.0", false)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"label", "refuse", "greeter"} {
		awaitPlugin(t, r.plugins(t), name, func(o *v1alpha1.Plugin) bool { return accepted(o) == metav1.ConditionTrue && o.Spec.Bundle == "twin" })
	}
	folder := t.TempDir()
	if err := os.CopyFS(filepath.Join(folder, "other"), os.DirFS(versionedBundle(t, "other", "1.0.0", false))); err != nil {
		t.Fatal(err)
	}
	return "admission: {disable: [ServiceAccount], enabled: [" + admission + "]}\nplugins: {directories: [" + folder + "], bundles: [{name: other}]}\n"
}

func (r *runningKernel) createPod(t *testing.T, name string) error {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	_, err := r.as(t, administrator).CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	return err
}

// A plugin of an installed bundle that the configuration has from another bundle is
// that of the configuration: its object says so, and is in force.
func TestConfigurationTakesPluginsOfInstalledBundle(t *testing.T) {
	data := t.TempDir()
	k := runKernel(t, data, "logging: {level: info}\n")
	k.awaitReady(t)
	text := k.twin(t, "label")
	// What somebody asked for and the configuration does as well needs nobody's word.
	k.enable(t, "label", true)
	awaitPlugin(t, k.plugins(t), "label", func(o *v1alpha1.Plugin) bool { return accepted(o) == metav1.ConditionTrue && *o.Spec.Enabled })
	k.stop()
	k = runKernel(t, data, text)
	k.awaitReady(t)
	for name, enabled := range map[string]bool{"label": true, "refuse": false, "greeter": false} {
		o := awaitPlugin(t, k.plugins(t), name, func(o *v1alpha1.Plugin) bool {
			return accepted(o) == metav1.ConditionTrue && o.Spec.Bundle == "other" && o.Status.Bundle == "other"
		})
		if *o.Spec.Enabled != enabled {
			t.Errorf("plugin %s: enabled %v, want what the configuration says", name, *o.Spec.Enabled)
		}
	}
	// It is operated on as any other.
	o, err := k.plugins(t).Change(t.Context(), "label", operate.Disable(nil))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.plugins(t).Await(t.Context(), o, nil); err != nil {
		t.Error(err)
	}
}

// Another bundle's plugin of the same name takes nobody's word away: what somebody had
// reviewed by a plugin that is not loaded any more is refused until he says otherwise.
func TestEnabledReviewIsNotTakenOver(t *testing.T) {
	for _, live := range []bool{false, true} {
		t.Run(map[bool]string{true: "while it runs", false: "at the start"}[live], func(t *testing.T) {
			data := t.TempDir()
			k := runKernel(t, data, "admission: {disable: [ServiceAccount]}\n")
			k.awaitReady(t)
			text := k.twin(t, "")
			o, err := k.plugins(t).Change(t.Context(), "label", operate.Enable(nil, 0))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := k.plugins(t).Await(t.Context(), o, nil); err != nil {
				t.Fatal(err)
			}
			if err := k.createPod(t, "before"); err != nil {
				t.Fatal(err)
			}
			if live {
				cfg := k.hostConfig(k.config())
				cfg.Directories = []string{strings.TrimSuffix(text[strings.Index(text, "directories: [")+len("directories: ["):], "], bundles: [{name: other}]}\n")}
				cfg.Bundles = append([]plugin.BundleConfig{{Name: "other"}}, cfg.Bundles...)
				if err := k.host.Reconfigure(cfg); err != nil {
					t.Fatal(err)
				}
			} else {
				k.stop()
				k = runKernel(t, data, text)
				k.awaitReady(t)
			}
			if err := k.createPod(t, "between"); err == nil || !strings.Contains(err.Error(), "label") || !strings.Contains(err.Error(), "not in force") {
				t.Errorf("a pod that nobody reviews: %v, want a refusal", err)
			}
			c := k.plugins(t)
			o = awaitPlugin(t, c, "label", func(o *v1alpha1.Plugin) bool { return accepted(o) == metav1.ConditionFalse })
			if o.Spec.Bundle != "twin" || !*o.Spec.Enabled {
				t.Errorf("the object was changed: %+v", o.Spec)
			}
			awaitPlugin(t, c, "refuse", func(o *v1alpha1.Plugin) bool { return accepted(o) == metav1.ConditionTrue && o.Spec.Bundle == "other" })
			// The other way out of it is the one that the refusal names.
			if _, err := c.Change(t.Context(), "label", func(o *v1alpha1.Plugin) error { o.Spec.Bundle = "elsewhere"; return nil }); err == nil {
				t.Error("the object of one bundle was made that of a third")
			}
			if _, err = c.Change(t.Context(), "label", operate.Disable(nil)); err != nil {
				t.Fatal(err)
			}
			awaitPlugin(t, c, "label", func(o *v1alpha1.Plugin) bool {
				return accepted(o) == metav1.ConditionTrue && o.Spec.Bundle == "other" && !*o.Spec.Enabled
			})
			if err := k.createPod(t, "after"); err != nil {
				t.Error(err)
			}
		})
	}
}
