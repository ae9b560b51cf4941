package kernel

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"pintle.dev/pintle/kernel/catalog"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/operate"
	"pintle.dev/pintle/kernel/plugin/seal"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// greeterOf is a version of the greeter whose manifest is changed.
func greeterOf(t *testing.T, version string, replace ...string) string {
	t.Helper()
	dir := versionedBundle(t, "greeter", version, false)
	path := filepath.Join(dir, manifest.File)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(replace...).Replace(string(data))
	if len(replace) > 0 && text == string(data) {
		t.Fatalf("nothing to replace in\n%s", data)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := seal.Seal(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// settle changes a plugin's spec and waits until that is in force.
func settlePlugin(t *testing.T, c *operate.Client, name string, change func(*v1alpha1.Plugin) error) *v1alpha1.Plugin {
	t.Helper()
	o, err := c.Change(t.Context(), name, change)
	if err == nil {
		o, err = c.Await(t.Context(), o, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// A rollback brings back the version, the configurations and the rights that were in
// force together, of all plugins of the bundle, also where neither version takes the
// other's configuration, and also after a restart. What it cannot bring back changes
// nothing.
func TestRollbackIsOfAllThatWasInForce(t *testing.T) {
	const schema = "- name: greeter\n  configSchema: {type: object, additionalProperties: false, required: [%], properties: {%: {type: string}}}\n"
	withSchema := func(key string) []string {
		return []string{"- name: greeter\n", strings.ReplaceAll(schema, "%", key), "[create]", "[create, " + map[string]string{"text": "delete", "Text": "patch"}[key] + "]"}
	}
	data := t.TempDir()
	const text = "logging: {level: info}\n"
	k := runKernel(t, data, text)
	k.awaitReady(t)
	if err := k.install(t, greeterOf(t, "1.0.0", withSchema("text")...)); err != nil {
		t.Fatal(err)
	}
	c := k.plugins(t)
	awaitPlugin(t, c, "greeter", func(o *v1alpha1.Plugin) bool { return o.Status.Version == "1.0.0" })
	rule := func(resource string, verbs ...string) v1alpha1.PluginPermission {
		return v1alpha1.PluginPermission{PolicyRule: rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: verbs}}
	}
	narrowed := []v1alpha1.PluginPermission{rule("namespaces", "get", "list", "watch"), rule("configmaps", "get", "list", "watch", "create")}
	config := func(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }
	settlePlugin(t, c, "greeter", func(o *v1alpha1.Plugin) error {
		o.Spec.Config, o.Spec.Permissions = config(`{"text":"one"}`), narrowed
		return operate.Enable(nil, 0)(o)
	})
	settlePlugin(t, c, "label", operate.Enable(nil, 0))

	// The second version has another configuration, and asks for other rights.
	if _, err := k.installer(t).Install(t.Context(), greeterOf(t, "2.0.0", withSchema("Text")...), catalog.InstallOptions{Beside: true}); err != nil {
		t.Fatal(err)
	}
	if err := k.relock(); err != nil {
		t.Fatal(err)
	}
	more := append(narrowed[:1:1], rule("configmaps", "get", "list", "watch", "create", "patch"))
	o := settlePlugin(t, c, "greeter", func(o *v1alpha1.Plugin) error {
		o.Spec.Config, o.Spec.Permissions = config(`{"Text":"two"}`), more
		return operate.Upgrade("2.0.0", "")(o)
	})
	if o.Status.Version != "2.0.0" || len(o.Status.Previous) != 1 {
		t.Fatalf("after the upgrade: %+v", o)
	}

	check := func(what, version, want string, rules []v1alpha1.PluginPermission) {
		t.Helper()
		o := awaitPlugin(t, c, "greeter", func(o *v1alpha1.Plugin) bool { return o.Status.Version == version && o.Spec.RollbackTo == nil })
		if o.Spec.Version != version || o.Spec.Config == nil || string(o.Spec.Config.Raw) != want || !equality.Semantic.DeepEqual(o.Spec.Permissions, rules) {
			t.Errorf("%s: version %s, configuration %s, permissions %v; want %s, %s, %v", what, o.Spec.Version, o.Spec.Config.Raw, o.Spec.Permissions, version, want, rules)
		}
		if sibling := awaitPlugin(t, c, "label", func(o *v1alpha1.Plugin) bool { return o.Spec.Version == version }); sibling.Spec.Enabled == nil || !*sibling.Spec.Enabled {
			t.Errorf("%s: the other plugin is switched off", what)
		}
	}
	// Any plugin of the bundle takes all of it back. Their statuses are written one by one.
	awaitPlugin(t, c, "label", func(o *v1alpha1.Plugin) bool { return len(o.Status.Previous) == 1 })
	settlePlugin(t, c, "label", operate.Rollback(""))
	check("rolled back", "1.0.0", `{"text":"one"}`, narrowed)
	settlePlugin(t, c, "greeter", operate.Rollback("2.0.0"))
	check("and to the second", "2.0.0", `{"Text":"two"}`, more)

	var refused *operate.RefusedError
	_, err := c.Change(t.Context(), "greeter", func(o *v1alpha1.Plugin) error {
		o.Spec.RollbackTo = &v1alpha1.PluginRollback{Revision: 77}
		return nil
	})
	if !errors.As(err, &refused) || !strings.Contains(refused.Message, "has no former revision 77") {
		t.Errorf("a revision that never was: %v", err)
	}
	k.stop()
	again := runKernel(t, data, text)
	again.awaitReady(t)
	c = again.plugins(t)
	check("after a restart", "2.0.0", `{"Text":"two"}`, more)
	settlePlugin(t, c, "greeter", operate.Rollback(""))
	check("rolled back after a restart", "1.0.0", `{"text":"one"}`, narrowed)
}

// Where a version cannot be started any more, its bundle's plugins ask for it in vain;
// an upgrade of one of them takes all of them along.
func TestUpgradeTakesSiblingsAlong(t *testing.T) {
	data := t.TempDir()
	const text = "logging: {level: info}\n"
	k := runKernel(t, data, text)
	k.awaitReady(t)
	if err := k.install(t, versionedBundle(t, "greeter", "1.0.0", false)); err != nil {
		t.Fatal(err)
	}
	c := k.plugins(t)
	awaitPlugin(t, c, "label", func(*v1alpha1.Plugin) bool { return true })
	settlePlugin(t, c, "label", operate.Enable(nil, 0))
	got, err := k.installer(t).Install(t.Context(), versionedBundle(t, "greeter", "2.0.0", false), catalog.InstallOptions{Beside: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.installer(t).Install(t.Context(), versionedBundle(t, "greeter", "3.0.0", false), catalog.InstallOptions{Beside: true}); err != nil {
		t.Fatal(err)
	}
	if err := k.relock(); err != nil {
		t.Fatal(err)
	}
	// A second build that says it is 3.0.0: nobody takes one of the two by the version.
	twin, err := k.installer(t).Install(t.Context(), greeterOf(t, "3.0.0", "reconcile: 1s", "reconcile: 2s"), catalog.InstallOptions{Beside: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := k.relock(); err != nil {
		t.Fatal(err)
	}
	var refused *operate.RefusedError
	if _, err := c.Change(t.Context(), "label", operate.Upgrade("3.0.0", "")); !errors.As(err, &refused) || !strings.Contains(refused.Message, twin.Digest) {
		t.Errorf("upgrade to one of two builds of a version: %v", err)
	}
	settlePlugin(t, c, "label", operate.Upgrade("2.0.0", ""))
	awaitPlugin(t, c, "greeter", func(o *v1alpha1.Plugin) bool { return o.Spec.Version == "2.0.0" })
	k.stop()
	if err := errors.Join(os.Chmod(got.Directory, 0o755), overwrite(filepath.Join(got.Directory, "greeter"), "#!/bin/sh\nexit 1\n")); err != nil {
		t.Fatal(err)
	}
	k = runKernel(t, data, text)
	k.awaitReady(t)
	c = k.plugins(t)
	accepted := func(o *v1alpha1.Plugin) bool {
		return meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.PluginConditionAccepted)
	}
	awaitPlugin(t, c, "label", func(o *v1alpha1.Plugin) bool { return !accepted(o) && o.Status.Version == "1.0.0" })
	settlePlugin(t, c, "greeter", operate.Upgrade("3.0.0", twin.Digest))
	o := awaitPlugin(t, c, "label", func(o *v1alpha1.Plugin) bool { return accepted(o) && o.Spec.Version == "3.0.0" })
	if condition := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.PluginConditionAccepted); o.Status.State != v1alpha1.PluginStateReady || condition.Status != metav1.ConditionTrue {
		t.Errorf("%+v", o.Status)
	}
	// The object tells of it.
	for limit := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		list, err := k.as(t, administrator).CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=Plugin,involvedObject.name=label"})
		if err != nil {
			t.Fatal(err)
		}
		told := map[string]bool{}
		for i := range list.Items {
			told[list.Items[i].Reason] = true
		}
		if told["NotInForce"] && told["InForce"] && told["VersionChanged"] {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("events of plugin label: %v", told)
		}
	}
}
