package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/e2e/cluster"
)

// storeCommand runs pintle store and returns what it printed and its exit status.
func storeCommand(t *testing.T, args ...string) (out, errs string, code int) {
	t.Helper()
	cmd := exec.CommandContext(bound(t), binary(t, "pintle"), append([]string{"store"}, args...)...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

// mustStore runs pintle store with JSON output into out.
func mustStore(t *testing.T, out any, args ...string) {
	t.Helper()
	text, errs, code := storeCommand(t, append(args, "-o", "json")...)
	if code != 0 {
		t.Fatalf("pintle store %s: status %d: %s", strings.Join(args, " "), code, errs)
	}
	if out == nil {
		return
	}
	if err := json.Unmarshal([]byte(text), out); err != nil {
		t.Fatalf("pintle store %s: %v in %s", strings.Join(args, " "), err, text)
	}
}

// storeRefuses runs pintle store and wants it to fail with a status and words.
func storeRefuses(t *testing.T, code int, words string, args ...string) {
	t.Helper()
	_, errs, got := storeCommand(t, args...)
	if got != code || !strings.Contains(errs, words) {
		t.Errorf("pintle store %s: status %d, %q; want %d, %q", strings.Join(args, " "), got, errs, code, words)
	}
}

// storeCluster starts a kernel without a node on a data directory.
func storeCluster(t *testing.T, data string) *env {
	t.Helper()
	binary(t, "pintle")
	e, err := launch(cluster.Options{Name: "store", Config: "configs/minimal.yaml", Data: data, Set: []string{"store.historyRetention=1h"}})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// versions renders the objects of a namespace with their resource versions.
func versions(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	list, err := client.CoreV1().ConfigMaps("default").List(bound(t), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, cm := range list.Items {
		fmt.Fprintf(&out, "%s@%s %s %s\n", cm.Name, cm.ResourceVersion, cm.UID, cm.Data["n"])
	}
	return out.String()
}

// changesSince renders the watch events from a revision on, up to one.
func changesSince(t *testing.T, client kubernetes.Interface, from, through string) string {
	t.Helper()
	w, err := client.CoreV1().ConfigMaps("default").Watch(bound(t), metav1.ListOptions{ResourceVersion: from})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	var out strings.Builder
	for event := range w.ResultChan() {
		cm, ok := event.Object.(*corev1.ConfigMap)
		if !ok {
			t.Fatalf("watch from %s: %v", from, event.Object)
		}
		fmt.Fprintf(&out, "%s %s@%s %s\n", event.Type, cm.Name, cm.ResourceVersion, cm.Data["n"])
		if cm.ResourceVersion == through {
			return out.String()
		}
	}
	t.Fatalf("the watch from %s ended before %s, after\n%s", from, through, out.String())
	return ""
}

// busy writes configmaps, one object a writer, until stop.
func busy(t *testing.T, client kubernetes.Interface) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			maps := client.CoreV1().ConfigMaps("default")
			for n := 0; ctx.Err() == nil; n++ {
				cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("busy-%d", i)}, Data: map[string]string{"n": fmt.Sprint(n)}}
				_, err := maps.Update(ctx, cm, metav1.UpdateOptions{})
				if apierrors.IsNotFound(err) {
					_, err = maps.Create(ctx, cm, metav1.CreateOptions{})
				} else if n%50 == 49 && err == nil {
					err = maps.Delete(ctx, cm.Name, metav1.DeleteOptions{})
				}
				if err != nil && ctx.Err() == nil {
					t.Errorf("write beside the backup: %v", err)
					return
				}
			}
		})
	}
	var once sync.Once
	stop = func() { once.Do(func() { cancel(); wg.Wait() }) }
	t.Cleanup(stop)
	return stop
}

// TestStoreCommands: an operator backs a busy cluster up, looks into its store, compacts and verifies it, and restores
// it elsewhere; the restored cluster serves the same objects, watches resume on it, and each command says what is wrong
// where something is.
func TestStoreCommands(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "pts") // short: sockets lie below
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	data, file := filepath.Join(dir, "a"), func(name string) string { return filepath.Join(dir, name) }
	e := storeCluster(t, data)
	running := true
	t.Cleanup(func() {
		if running {
			e.Kill()
		}
	})
	configs := e.client.CoreV1().ConfigMaps("default")
	for i := range 3 {
		if _, err := configs.Create(bound(t), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%d", i)}, Data: map[string]string{"n": "created"},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	first, err := configs.Get(bound(t), "c0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}

	// Backups, while others write.
	type backup struct {
		Kind           string
		From, Revision uint64
		Keys, Changes  int64
	}
	var full, inc, last backup
	stop := busy(t, e.client)
	mustStore(t, &full, "backup", "--data", data, file("full.bak"))
	mustStore(t, &inc, "backup", "--data", data, file("inc.bak"), "--since", file("full.bak"))
	stop()
	if _, err := configs.Patch(bound(t), "c0", "application/merge-patch+json", []byte(`{"data":{"n":"patched"}}`), metav1.PatchOptions{FieldManager: "the-operator"}); err != nil {
		t.Fatal(err)
	}
	if err := configs.Delete(bound(t), "c1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	end, err := configs.Patch(bound(t), "c2", "application/merge-patch+json", []byte(`{"data":{"n":"the last"}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	mustStore(t, &last, "backup", "--kubeconfig", e.Kubeconfig, file("last.bak"), "--since", file("inc.bak"))
	if full.Kind != "full" || inc.Kind != "incremental" || inc.From != full.Revision || last.From != inc.Revision || last.Changes < 3 {
		t.Errorf("full %+v, then %+v, %+v", full, inc, last)
	}
	want, events := versions(t, e.client), changesSince(t, e.client, first.ResourceVersion, end.ResourceVersion)
	storeRefuses(t, 2, "is there already", "backup", "--data", data, file("full.bak"))

	// What the store has.
	var stats struct {
		Revision  uint64
		Resources []struct {
			Resource string
			Objects  int64
		}
		Bus *struct{ Subscribers int }
	}
	mustStore(t, &stats, "stats", "--data", data)
	if stats.Revision < last.Revision || stats.Bus == nil || stats.Bus.Subscribers == 0 || !slices.ContainsFunc(stats.Resources, func(r struct {
		Resource string
		Objects  int64
	}) bool {
		return r.Resource == "configmaps" && r.Objects >= 2
	}) {
		t.Errorf("stats %+v", stats)
	}
	var changes []struct {
		Type, Diff string
		By         []string
	}
	mustStore(t, &changes, "history", "configmaps/default/c0", "--data", data)
	if n := len(changes); n != 2 || !strings.Contains(strings.Join(changes[1].By, " "), "the-operator") || !strings.Contains(changes[1].Diff, "+  \"n\": patched") {
		t.Errorf("history %+v", changes)
	}
	var object corev1.ConfigMap
	mustStore(t, &object, "get", "/registry/configmaps/default/c0", "--revision", first.ResourceVersion, "--data", data)
	if object.ResourceVersion != first.ResourceVersion || object.UID != first.UID || object.Data["n"] != "created" {
		t.Errorf("at revision %s: %+v", first.ResourceVersion, object)
	}
	storeRefuses(t, 4, "key not found", "get", "configmaps/default/none", "--data", data)
	storeRefuses(t, 1, fmt.Sprintf("in use by process %d", e.Pid()), "verify", "--data", data, "--offline")
	mustStore(t, nil, "verify", "--data", data)
	mustStore(t, nil, "verify", file("full.bak"), file("inc.bak"), file("last.bak"))

	// Only the administrator may.
	other := rest.CopyConfig(e.cfg)
	other.Impersonate = rest.ImpersonationConfig{UserName: "somebody"}
	asOther, err := kubernetes.NewForConfig(other)
	if err != nil {
		t.Fatal(err)
	}
	if err := asOther.Discovery().RESTClient().Get().AbsPath("/kernel/store/backup").Do(bound(t)).Error(); !apierrors.IsForbidden(err) {
		t.Errorf("a backup for somebody: %v", err)
	}
	metrics, err := e.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(bound(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		`apiserver_storage_objects{resource="configmaps"}`, `apiserver_resource_objects{group="",resource="configmaps"}`, "apiserver_storage_size_bytes{",
		"apiserver_request_total", "pintle_store_commit_duration_seconds_bucket", "pintle_store_group_size_count", "pintle_store_free_bytes", "pintle_bus_lag_revisions",
	} {
		if !strings.Contains(string(metrics), "\n"+name) {
			t.Errorf("/metrics has no %s", name)
		}
	}

	// An incremental backup whose base was compacted away.
	mustStore(t, nil, "compact", "--data", data, "--revision", fmt.Sprint(last.Revision))
	storeRefuses(t, 4, "take a full backup", "backup", "--data", data, file("late.bak"), "--since", file("full.bak"))

	if err := e.Stop(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	running = false
	mustStore(t, nil, "verify", "--data", data)

	// A damaged backup restores nothing.
	bad, err := os.ReadFile(file("full.bak"))
	if err != nil {
		t.Fatal(err)
	}
	bad[len(bad)/2] ^= 4
	if err := os.WriteFile(file("bad.bak"), bad, 0o600); err != nil {
		t.Fatal(err)
	}
	storeRefuses(t, 3, "cannot be trusted", "verify", file("bad.bak"))
	storeRefuses(t, 3, "nothing was restored", "restore", file("bad.bak"), "--data", file("bad"))
	storeRefuses(t, 1, "an incremental backup between them is missing", "restore", file("full.bak"), file("last.bak"), "--data", file("bad"))
	storeRefuses(t, 1, "is not empty", "restore", file("full.bak"), "--data", data)
	if left, err := filepath.Glob(file("bad") + "/*"); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}

	// Restored to an earlier state, and to the last.
	mustStore(t, nil, "restore", file("full.bak"), "--data", file("early"), "--revision", first.ResourceVersion)
	storeRefuses(t, 4, "key not found", "get", "configmaps/default/busy-0", "--data", file("early"))
	restored := filepath.Join(dir, "b")
	mustStore(t, nil, "restore", file("full.bak"), file("inc.bak"), file("last.bak"), "--data", restored)
	if err := os.CopyFS(filepath.Join(restored, "pki"), os.DirFS(filepath.Join(data, "pki"))); err != nil {
		t.Fatal(err)
	}
	again := storeCluster(t, restored)
	defer func() {
		if err := again.Stop(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}()
	if got := versions(t, again.client); got != want {
		t.Errorf("restored\n%swant\n%s", got, want)
	}
	if got := changesSince(t, again.client, first.ResourceVersion, end.ResourceVersion); got != events {
		t.Errorf("a watch that resumes sees\n%swant\n%s", got, events)
	}
	mustStore(t, nil, "verify", "--data", restored)
}
