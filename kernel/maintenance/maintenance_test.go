package maintenance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/kernel/bus"
	"pintle.dev/pintle/kernel/store"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/golang/glog.(*fileSink).flushDaemon"),
		goleak.IgnoreAnyFunction("go.opencensus.io/stats/view.(*worker).start"), goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
		goleak.IgnoreAnyFunction("pintle.dev/pintle/e2e/cluster.(*starter).run")) // of the etcd; it lives as long as the tests
}

// served is a store with its handler behind HTTP, and a client.
func served(t *testing.T) (*store.Store, Source, func()) {
	t.Helper()
	dir := t.TempDir()
	s, stop := runningStore(t, dir)
	b, err := bus.New(bus.Config{}, s)
	if err != nil {
		t.Fatal(err)
	}
	h, err := NewHandler(Config{Store: s, Bus: b, Dir: dir, Decoder: NewDecoder()})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c, err := Dial(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return s, c, stop
}

func configMap(t testing.TB, value, manager string, at int) []byte {
	t.Helper()
	cm := corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "ns"},
		Data:       map[string]string{"key": value},
	}
	when := metav1.Unix(int64(at), 0)
	cm.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, Operation: metav1.ManagedFieldsOperationApply, Time: &when}}
	b, err := json.Marshal(&cm)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestOnline: each operation gives a client what the store has, and refusals with their reason.
func TestOnline(t *testing.T) {
	s, c, _ := served(t)
	key := Key("configmaps/ns/c")
	first := commit(t, s, store.Write{Key: key, Value: configMap(t, "one", "alice", 1000)})
	second := commit(t, s, store.Write{Key: key, Value: configMap(t, "two", "bob", 2000)})
	commit(t, s, store.Write{Key: key, Delete: true})
	third := commit(t, s, store.Write{Key: key, Value: configMap(t, "three", "carol", 3000), TTL: 3600})
	commit(t, s, store.Write{Key: "/registry/example.com/things/ns/x", Value: []byte("k8s:enc:aescbc:v1:key1:????")})

	v, err := c.Get(t.Context(), key, first)
	if err != nil || v.Revision != first || !strings.Contains(string(v.Value), "one") {
		t.Errorf("%+v, %v", v, err)
	}
	if v, err = c.Get(t.Context(), key, 0); err != nil || v.Revision != third || v.Expires == nil {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err = c.Get(t.Context(), "/none", 0); statusCode(err) != 404 {
		t.Errorf("a key that is not there: %v", err)
	}
	if _, err = c.Get(t.Context(), key, third+9); statusCode(err) != 400 {
		t.Errorf("a revision to come: %v", err)
	}

	versions, err := c.History(t.Context(), key, 100)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, ch := range NewDecoder().Changes(versions, 0) {
		told = append(told, fmt.Sprintf("%d %s %s %s", ch.Revision, ch.Type, strings.Join(ch.By, ","), ch.Time))
		if ch.Revision == second && !strings.Contains(ch.Diff, "-  key: one\n+  key: two\n") {
			t.Errorf("diff of %d:\n%s", second, ch.Diff)
		}
	}
	want := []string{
		fmt.Sprintf("%d created alice (Apply) 1970-01-01T00:16:40Z", first),
		fmt.Sprintf("%d updated bob (Apply) 1970-01-01T00:33:20Z", second),
		fmt.Sprintf("%d deleted  ", second+1),
		fmt.Sprintf("%d created carol (Apply) 1970-01-01T00:50:00Z", third),
	}
	if fmt.Sprint(told) != fmt.Sprint(want) {
		t.Errorf("history %q, want %q", told, want)
	}

	st, err := c.Stats(t.Context())
	if err != nil || st.Revision != third+1 || st.Bus == nil || fmt.Sprint(st.Resources[0].Resource, st.Resources[1].Resource, st.Resources[1].Group) != "configmapsthingsexample.com" && len(st.Resources) != 2 {
		t.Errorf("%+v, %v", st, err)
	}

	var b bytes.Buffer
	backup, err := c.Backup(t.Context(), BackupRequest{History: true}, &b, nil)
	if err != nil || backup.Size != int64(b.Len()) || backup.Revision != third+1 || backup.Changes != 5 {
		t.Errorf("%+v, %v", backup, err)
	}
	if _, _, err := store.VerifyBackup(t.Context(), bytes.NewReader(b.Bytes()), "", nil, nil); err != nil {
		t.Error(err)
	}
	if _, err := c.Backup(t.Context(), BackupRequest{}, fullDisk{}, nil); !errors.Is(err, errFullDisk) {
		t.Errorf("onto a full disk: %v", err)
	}

	report, err := c.Verify(t.Context(), nil)
	if err != nil || report.Found != 0 || report.Keys != 2 {
		t.Errorf("%+v, %v", report, err)
	}
	commit(t, s, store.Write{Key: "/registry/pods/ns/bad", Value: []byte("k8s\x00nonsense")})
	if report, err = c.Verify(t.Context(), nil); err != nil || report.Found != 1 || !strings.Contains(report.Problems[0].String(), "objects: key /registry/pods/ns/bad") {
		t.Errorf("%+v, %v", report, err)
	}

	if _, err := c.Compact(t.Context(), CompactRequest{Keep: time.Hour}); statusCode(err) != 400 {
		t.Errorf("an age that the kernel does not know: %v", err)
	}
	if out, err := c.Compact(t.Context(), CompactRequest{Revision: third}); err != nil || out.CompactedRevision != third {
		t.Errorf("%+v, %v", out, err)
	}
	if _, err := c.Backup(t.Context(), BackupRequest{Incremental: true, Since: first}, &b, nil); statusCode(err) != 410 {
		t.Errorf("since a compacted revision: %v", err)
	}
	if _, err = c.Get(t.Context(), key, first); statusCode(err) != 410 {
		t.Errorf("at a compacted revision: %v", err)
	}
}

func statusCode(err error) int32 {
	var refused *StatusError
	if errors.As(err, &refused) {
		return refused.Status.Code
	}
	return 0
}

var errFullDisk = errors.New("no space left on device")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFullDisk }

// TestOffline: the same on a directory, which a running store keeps to itself.
func TestOffline(t *testing.T) {
	dir := t.TempDir()
	s, stop := runningStore(t, dir)
	key := Key("/registry/configmaps/ns/c")
	first := commit(t, s, store.Write{Key: key, Value: configMap(t, "one", "alice", 1000)})
	commit(t, s, store.Write{Key: key, Value: configMap(t, "two", "bob", 2000)})
	d := OpenDirectory(store.Config{Dir: dir, MinFreeBytes: -1}, NewDecoder())
	if _, err := d.Stats(t.Context()); !errors.As(err, new(*store.LockedError)) {
		t.Errorf("while a store runs on it: %v", err)
	}
	stop()
	st, err := d.Stats(t.Context())
	if err != nil || st.Keys != 1 || st.Bus != nil || st.Disk.Tables+st.Disk.Memtables == 0 {
		t.Errorf("%+v, %v", st, err)
	}
	if v, err := d.Get(t.Context(), key, first); err != nil || !strings.Contains(string(v.Value), "one") {
		t.Errorf("%+v, %v", v, err)
	}
	if h, err := d.History(t.Context(), key, 10); err != nil || len(h) != 2 {
		t.Errorf("%+v, %v", h, err)
	}
	var b bytes.Buffer
	if out, err := d.Backup(t.Context(), BackupRequest{}, &b, nil); err != nil || out.Keys != 1 {
		t.Errorf("%+v, %v", out, err)
	}
	if r, err := d.Verify(t.Context(), nil); err != nil || r.Found != 0 || r.Keys != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := d.Compact(t.Context(), CompactRequest{Keep: time.Hour}); err == nil {
		t.Error("compacting by age offline was accepted")
	}
	if c, err := d.Compact(t.Context(), CompactRequest{Revision: first + 1}); err != nil || c.CompactedRevision != first+1 {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := d.Get(t.Context(), key, first); !errors.As(err, new(*store.CompactedError)) {
		t.Errorf("at a compacted revision: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestKeys: keys are found as people write them, and resources as keys have them.
func TestKeys(t *testing.T) {
	for in, want := range map[string][2]string{
		"pods/ns/p":                    {"/registry/pods/ns/p", "pods"},
		"/registry/pods/ns/p":          {"/registry/pods/ns/p", "pods"},
		"/pods/ns/p":                   {"/registry/pods/ns/p", "pods"},
		"nodes/n":                      {"/registry/minions/n", "nodes"},
		"minions/n":                    {"/registry/minions/n", "nodes"},
		"services/ns/s":                {"/registry/services/specs/ns/s", "services"},
		"services/specs/ns/s":          {"/registry/services/specs/ns/s", "services"},
		"endpoints/ns/s":               {"/registry/services/endpoints/ns/s", "endpoints"},
		"replicationcontrollers/ns/r":  {"/registry/controllers/ns/r", "replicationcontrollers"},
		"deployments/ns/d":             {"/registry/deployments/ns/d", "deployments.apps"},
		"ingresses/ns/i":               {"/registry/ingress/ns/i", "ingresses.networking.k8s.io"},
		"example.com/things/ns/x":      {"/registry/example.com/things/ns/x", "things.example.com"},
		"plugins/PodFitsResources":     {"/registry/plugins/PodFitsResources", "plugins.kernel.pintle.dev"},
		"clusterroles/cluster-admin":   {"/registry/clusterroles/cluster-admin", "clusterroles.rbac.authorization.k8s.io"},
		"storageclasses/standard":      {"/registry/storageclasses/standard", "storageclasses.storage.k8s.io"},
		"priorityclasses/system-first": {"/registry/priorityclasses/system-first", "priorityclasses.scheduling.k8s.io"},
	} {
		key := Key(in)
		if key != want[0] || ResourceOf(key).String() != want[1] {
			t.Errorf("%s is %s of %s, want %s of %s", in, key, ResourceOf(key), want[0], want[1])
		}
	}
}

// TestCollectors: the metrics can be registered together and collected, and count what is there.
func TestCollectors(t *testing.T) {
	s, _ := runningStore(t, t.TempDir())
	b, err := bus.New(bus.Config{}, s)
	if err != nil {
		t.Fatal(err)
	}
	commit(t, s, store.Write{Key: "/registry/pods/ns/p", Value: []byte("x")})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(Collectors(s, b)...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		m := f.GetMetric()[0]
		got[f.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	for name, want := range map[string]float64{
		"apiserver_storage_objects": 1, "apiserver_resource_objects": 1, "apiserver_resource_size_estimate_bytes": 1,
		"pintle_store_keys": 1, "pintle_store_revision": 2, "pintle_store_commit_duration_seconds": 1,
		"pintle_store_group_size": 1, "pintle_store_group_write_duration_seconds": 1, "pintle_bus_subscribers": 0,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (there: %v), want %v", name, v, ok, want)
		}
	}
	for _, name := range []string{"apiserver_storage_size_bytes", "pintle_store_free_bytes"} {
		if got[name] <= 0 {
			t.Errorf("%s is %v", name, got[name])
		}
	}
}
