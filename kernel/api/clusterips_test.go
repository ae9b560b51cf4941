package api_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"pintle.dev/pintle/e2e/cluster"
	"pintle.dev/pintle/kernel/api"
	"pintle.dev/pintle/kernel/api/etcd"
	"pintle.dev/pintle/kernel/store"
)

func smallService(name, ip string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.ServiceSpec{ClusterIP: ip, Ports: []corev1.ServicePort{{Port: 80}}}}
}

// smallRange is a server of a range of six addresses.
func smallRange(cfg *api.Config) { cfg.ServiceCIDR = "10.50.0.0/29" }

// records are the names of the services that have an address, by the address.
func records(t *testing.T, c kubernetes.Interface) map[string]string {
	t.Helper()
	list, err := c.NetworkingV1().IPAddresses().List(context.Background(), metav1.ListOptions{LabelSelector: "ipaddress.kubernetes.io/managed-by=ipallocator.k8s.io"})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, o := range list.Items {
		p := o.Spec.ParentRef
		if p.Resource != "services" || p.Group != "" || o.Labels["ipaddress.kubernetes.io/ip-family"] != "IPv4" || o.UID == "" {
			t.Errorf("record %+v", o)
		}
		out[o.Name] = p.Namespace + "/" + p.Name
	}
	return out
}

// Each cluster IP has an IPAddress object as long as its service has it, whatever
// becomes of the write.
func TestClusterIPRecords(t *testing.T) {
	s, _ := startWith(t, t.TempDir(), smallRange)
	ctx := t.Context()
	c := overTLS(t, s)
	services := c.CoreV1().Services("default")
	const first = "10.50.0.1"
	want := func(when string, more map[string]string) {
		t.Helper()
		all := map[string]string{first: "default/kubernetes"}
		for k, v := range more {
			all[k] = v
		}
		if have := records(t, c); fmt.Sprint(have) != fmt.Sprint(all) {
			t.Errorf("%s: records %v, want %v", when, have, all)
		}
	}
	cidr, err := c.NetworkingV1().ServiceCIDRs().Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil || !slices.Equal(cidr.Spec.CIDRs, []string{"10.50.0.0/29"}) || len(cidr.Status.Conditions) != 1 || cidr.Status.Conditions[0].Status != "True" {
		t.Errorf("the range at the start: %+v, %v", cidr, err)
	}
	want("at the start", nil)
	svc, err := services.Create(ctx, smallService("a", ""), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	mine := map[string]string{svc.Spec.ClusterIP: "default/a"}
	want("created", mine)
	if _, err := services.Create(ctx, smallService("dry", ""), metav1.CreateOptions{DryRun: []string{"All"}}); err != nil {
		t.Error(err)
	}
	want("dry run", mine)
	if _, err := services.Create(ctx, smallService("a", ""), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("there already: %v", err)
	}
	bad := smallService("bad", "")
	bad.Spec.Ports = nil
	if _, err := services.Create(ctx, bad, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("without ports: %v", err)
	}
	if _, err := services.Create(ctx, smallService("other", svc.Spec.ClusterIP), metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "provided IP is already allocated") {
		t.Errorf("taken: %v", err)
	}
	want("after refusals", mine)
	named, err := services.Create(ctx, &corev1.Service{ObjectMeta: metav1.ObjectMeta{GenerateName: "g-"}, Spec: smallService("", "").Spec}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want("with a name that was drawn", map[string]string{svc.Spec.ClusterIP: "default/a", named.Spec.ClusterIP: "default/" + named.Name})
	if err := services.Delete(ctx, named.Name, metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	update := func(f func(*corev1.ServiceSpec)) {
		t.Helper()
		f(&svc.Spec)
		if svc, err = services.Update(ctx, svc, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	update(func(s *corev1.ServiceSpec) {
		s.Type, s.ExternalName, s.ClusterIP, s.ClusterIPs = "ExternalName", "a.example", "", nil
	})
	want("without an address", nil)
	update(func(s *corev1.ServiceSpec) { s.Type, s.ExternalName = "ClusterIP", "" })
	want("with one again", map[string]string{svc.Spec.ClusterIP: "default/a"})
	if err := c.CoreV1().RESTClient().Delete().Namespace("default").Resource("services").Param("fieldSelector", "metadata.name=a").Do(ctx).Error(); err != nil {
		t.Error(err)
	}
	want("deleted", nil)
}

// What is made by hand is in the way of an address, what is deleted by hand comes
// back, and the default range too.
func TestClusterIPsByHand(t *testing.T) {
	s, _ := startWith(t, t.TempDir(), smallRange)
	ctx := t.Context()
	c := overTLS(t, s)
	services, addresses := c.CoreV1().Services("default"), c.NetworkingV1().IPAddresses()
	byHand := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: "10.50.0.3"},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Group: "gateway.networking.k8s.io", Resource: "gateways", Namespace: "no", Name: "where"}}}
	if _, err := addresses.Create(ctx, byHand, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := services.Create(ctx, smallService("named", "10.50.0.3"), metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "already allocated") {
		t.Errorf("what a gateway has: %v", err)
	}
	// 10.50.0.1 to 6, less the server's own and that.
	var ips []string
	for i := range 4 {
		svc, err := services.Create(ctx, smallService(fmt.Sprint("s", i), ""), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ips = append(ips, svc.Spec.ClusterIP)
	}
	if _, err := services.Create(ctx, smallService("full", ""), metav1.CreateOptions{}); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "range is full") {
		t.Errorf("full: %v", err)
	}
	if slices.Contains(ips, "10.50.0.3") || slices.Contains(ips, "10.50.0.1") {
		t.Errorf("drawn: %v", ips)
	}
	// A record that is taken away from a service that lives comes back, and a deleted
	// twin does not take it along.
	old, err := addresses.Get(ctx, ips[0], metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := addresses.Delete(ctx, ips[0], metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		now, err := addresses.Get(ctx, ips[0], metav1.GetOptions{})
		return err == nil && now.UID != old.UID && *now.Spec.ParentRef == *old.Spec.ParentRef
	})
	patch := []byte(`{"metadata":{"labels":null}}`)
	if _, err := addresses.Patch(ctx, ips[1], types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		now, err := addresses.Get(ctx, ips[1], metav1.GetOptions{})
		return err == nil && now.Labels["ipaddress.kubernetes.io/managed-by"] != ""
	})
	waitFor(t, func() bool {
		list, err := c.EventsV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "regarding.name=s0"})
		return err == nil && slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Reason == "ClusterIPNotAllocated" && e.ReportingController == "ipallocator-repair-controller"
		})
	})
	// Nothing holds the default range here: its controller does not run.
	if err := c.NetworkingV1().ServiceCIDRs().Delete(ctx, "kubernetes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		o, err := c.NetworkingV1().ServiceCIDRs().Get(ctx, "kubernetes", metav1.GetOptions{})
		return err == nil && len(o.Status.Conditions) == 1
	})
	if have := records(t, c); len(have) != 5 {
		t.Errorf("records: %v", have)
	}
}

// A range that is added is drawn from when the first is full, at once, and not any
// more from the moment it is deleted.
func TestServiceRanges(t *testing.T) {
	s, _ := startWith(t, t.TempDir(), smallRange)
	ctx := t.Context()
	c := overTLS(t, s)
	services, ranges := c.CoreV1().Services("default"), c.NetworkingV1().ServiceCIDRs()
	create := func(name, ip string) (string, error) {
		svc, err := services.Create(ctx, smallService(name, ip), metav1.CreateOptions{})
		if err != nil {
			return "", err
		}
		return svc.Spec.ClusterIP, nil
	}
	for i := range 5 {
		if ip, err := create(fmt.Sprint("old", i), ""); err != nil || !strings.HasPrefix(ip, "10.50.0.") {
			t.Fatal(ip, err)
		}
	}
	if _, err := create("more", "10.60.0.9"); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "does not match the current range") {
		t.Errorf("before: %v", err)
	}
	more, err := ranges.Create(ctx, &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "more", Finalizers: []string{"example.com/hold"}},
		Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.60.0.0/28"}}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := create("more", "10.60.0.9"); err != nil {
		t.Errorf("by name: %v", err)
	}
	drawn, err := create("drawn", "")
	if err != nil || !strings.HasPrefix(drawn, "10.60.0.") {
		t.Errorf("drawn: %s, %v", drawn, err)
	}
	free := []string{"10.60.0.10", "10.60.0.11", "10.60.0.12"}
	free = slices.DeleteFunc(free, func(ip string) bool { return ip == drawn })
	more.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: "Held", LastTransitionTime: metav1.Now()}}
	if _, err := ranges.UpdateStatus(ctx, more, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := create("not-ready", free[0]); !apierrors.IsInvalid(err) {
		t.Errorf("not ready: %v", err)
	}
	if _, err := ranges.Patch(ctx, "more", types.MergePatchType, []byte(`{"status":{"conditions":null}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	if _, err := create("ready", free[0]); err != nil {
		t.Errorf("ready again: %v", err)
	}
	if err := ranges.Delete(ctx, "more", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := create("late", free[1]); !apierrors.IsInvalid(err) {
		t.Errorf("while it is deleted: %v", err)
	}
	if _, err := create("late", ""); !apierrors.IsInternalError(err) {
		t.Errorf("while it is deleted: %v", err)
	}
	if err := services.Delete(ctx, "more", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if have := records(t, c); have["10.60.0.9"] != "" || have[free[0]] != "default/ready" {
		t.Errorf("records: %v", have)
	}
	// The other family does not help a service of this one.
	if _, err := ranges.Create(ctx, &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "six"},
		Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"fd00:60::/112"}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := create("late", "fd00:60::5"); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "IPv6 is not configured on this cluster") {
		t.Errorf("of the other family: %v", err)
	}
}

// changeStopped changes a store that no server uses.
func changeStopped(t *testing.T, dir string, change func(commit func(store.Write), keys func(prefix string) []string)) {
	t.Helper()
	st, err := store.Open(store.Config{Dir: filepath.Join(dir, "store")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- st.Run(ctx) }()
	change(func(w store.Write) {
		if _, err := st.Commit(ctx, w); err != nil {
			t.Fatal(err)
		}
	}, func(prefix string) []string {
		var out []string
		snapshot, err := st.Snapshot(0)
		if err == nil {
			err = snapshot.Ascend(prefix, "", func(i *store.Item) bool { out = append(out, i.Key); return true })
		}
		if err != nil {
			t.Fatal(err)
		}
		return out
	})
	cancel()
	if err := errors.Join(<-done, st.Close()); err != nil {
		t.Fatal(err)
	}
}

// A cluster that is older than the records gets them at the start, and gives no
// address out that a service has. One that was killed while it made or deleted
// a service starts, and the kubernetes service has its address.
func TestClusterIPsAfterARestart(t *testing.T) {
	dir := t.TempDir()
	var ip string
	t.Run("older", func(t *testing.T) {
		s, _ := startWith(t, dir, smallRange)
		svc, err := overTLS(t, s).CoreV1().Services("default").Create(t.Context(), smallService("a", ""), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ip = svc.Spec.ClusterIP
	})
	changeStopped(t, dir, func(commit func(store.Write), keys func(string) []string) {
		gone := append(keys("/registry/ipaddresses/"), keys("/registry/servicecidrs/")...)
		if len(gone) != 3 {
			t.Errorf("records of a range and two services: %v", gone)
		}
		for _, key := range gone {
			commit(store.Write{Key: key, Delete: true, Expect: store.AnyRevision})
		}
	})
	t.Run("migrated", func(t *testing.T) {
		s, _ := startWith(t, dir, smallRange)
		c := overTLS(t, s)
		if _, err := c.CoreV1().Services("default").Create(t.Context(), smallService("b", ip), metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "already allocated") {
			t.Errorf("what an old service has: %v", err)
		}
		waitFor(t, func() bool {
			return records(t, c)[ip] == "default/a" && records(t, c)["10.50.0.1"] == "default/kubernetes"
		})
		list, err := c.EventsV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=ClusterIPNotAllocated"})
		if err != nil || len(list.Items) != 0 {
			t.Errorf("events of a cluster that is just older: %v, %v", list.Items, err)
		}
	})
	changeStopped(t, dir, func(commit func(store.Write), keys func(string) []string) {
		// Between record and service.
		commit(store.Write{Key: "/registry/services/specs/default/kubernetes", Delete: true, Expect: store.AnyRevision})
		commit(store.Write{Key: "/registry/services/specs/default/a", Delete: true, Expect: store.AnyRevision})
	})
	t.Run("killed", func(t *testing.T) {
		var warnings logLines
		s, _ := startWith(t, dir, func(cfg *api.Config) {
			smallRange(cfg)
			cfg.Logger = slog.New(slog.NewTextHandler(&warnings, &slog.HandlerOptions{Level: slog.LevelWarn}))
		})
		c := overTLS(t, s)
		// A start that a signal ended is nothing to warn of.
		if text := warnings.String(); strings.Contains(text, "taken back") {
			t.Errorf("it says: %s", text)
		}
		svc, err := c.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
		if err != nil || svc.Spec.ClusterIP != "10.50.0.1" {
			t.Errorf("%v, %v", svc, err)
		}
		if _, err := c.CoreV1().Services("default").Create(t.Context(), smallService("b", ip), metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("what may still be made: %v", err)
		}
		if have := records(t, c); have["10.50.0.1"] != "default/kubernetes" || have[ip] != "default/a" {
			t.Errorf("records: %v", have)
		}
	})
	t.Run("another range", func(t *testing.T) {
		// The cluster keeps its range, and starts.
		s, _ := startWith(t, dir, func(cfg *api.Config) { cfg.ServiceCIDR = "10.70.0.0/24" })
		c := overTLS(t, s)
		svc, err := c.CoreV1().Services("default").Create(t.Context(), smallService("c", ""), metav1.CreateOptions{})
		if err != nil || !strings.HasPrefix(svc.Spec.ClusterIP, "10.50.0.") {
			t.Errorf("%v, %v", svc, err)
		}
	})
	changeStopped(t, dir, func(commit func(store.Write), _ func(string) []string) {
		commit(store.Write{Key: "/registry/services/specs/default/kubernetes", Delete: true, Expect: store.AnyRevision})
	})
	t.Run("another range without the service", func(t *testing.T) {
		s, _ := startWith(t, dir, func(cfg *api.Config) { cfg.ServiceCIDR = "10.70.0.0/24" })
		if _, err := overTLS(t, s).CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
}

// logLines are lines that goroutines write.
type logLines struct {
	mu sync.Mutex
	b  strings.Builder
}

// Write implements io.Writer.
func (w *logLines) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(line)
}

// String returns all lines so far.
func (w *logLines) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// Two servers on one etcd hand out each address once, down to the last.
func TestClusterIPsOfTwoServers(t *testing.T) {
	server, err := cluster.StartEtcd(t.Context(), nil, t.TempDir(), false)
	if errors.Is(err, cluster.ErrNoEtcd) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	var clients [2]*kubernetes.Clientset
	dir := t.TempDir() // one authority
	for i := range clients {
		backend, err := etcd.Open(t.Context(), etcd.Config{Servers: []string{server.URL}})
		if err != nil {
			t.Fatal(err)
		}
		defer backend.Close()
		c, stop := runServer(t, api.Config{DataDir: dir, Backend: backend, ServiceCIDR: "10.50.0.0/27"})
		defer stop()
		clients[i] = c
	}
	var mu sync.Mutex
	have := map[string]string{}
	var making sync.WaitGroup
	for i, c := range clients {
		making.Go(func() {
			for n := 0; ; n++ {
				svc, err := c.CoreV1().Services("default").Create(t.Context(), smallService(fmt.Sprintf("s%d-%d", i, n), ""), metav1.CreateOptions{})
				if err != nil {
					if !strings.Contains(err.Error(), "range is full") {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				if other := have[svc.Spec.ClusterIP]; other != "" {
					t.Errorf("%s is of %s and %s", svc.Spec.ClusterIP, other, svc.Name)
				}
				have[svc.Spec.ClusterIP] = svc.Name
				mu.Unlock()
			}
		})
	}
	making.Wait()
	// 32 less network, broadcast and the kubernetes service's.
	if len(have) != 29 {
		t.Errorf("%d addresses were given out, want 29", len(have))
	}
	one := smallService("again", "10.50.0.9")
	if _, err := clients[0].CoreV1().Services("default").Create(t.Context(), one, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("by name: %v", err)
	}
	if err := clients[0].CoreV1().Services("default").Delete(t.Context(), have["10.50.0.9"], metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := clients[1].CoreV1().Services("default").Create(t.Context(), one, metav1.CreateOptions{}); err != nil {
		t.Errorf("what the other gave up: %v", err)
	}
}
