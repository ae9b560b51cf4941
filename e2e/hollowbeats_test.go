package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// beatingConfig has the controllers that look after nodes. A node is lost after 20 seconds
// without a heartbeat.
const beatingConfig = `apiVersion: config.pintle.dev/v1alpha1
kind: KernelConfiguration
api: {bindAddress: 127.0.0.1}
node: {enabled: false}
scheduler: {enabled: false}
plugins:
  bundles:
  - {name: controllers, config: {nodelifecycle: {nodeMonitorGracePeriod: 20s}}}
controllers:
  enabled: [nodelifecycle, tainteviction, nodettl, namespace, serviceaccount]
`

func nodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// TestHollowNodesBeat: simulated nodes of another process renew their Leases in time, so that
// none is taken for lost; when their process stands still, all are.
func TestHollowNodesBeat(t *testing.T) {
	const nodes, watched = 200, 25 * time.Second
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte(beatingConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	e := minimal(t, config, "")
	h := startHollow(t, "--kubeconfig", e.Kubeconfig, "--nodes", strconv.Itoa(nodes), "--node-lease-duration", "16s")
	h.await(t, "ready in ")

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	factory := informers.NewSharedInformerFactory(e.client, 0)
	list, leases := factory.Core().V1().Nodes(), factory.Coordination().V1().Leases()
	leases.Informer() // the factory starts what was asked for
	lost := make(chan string, nodes)
	wasReady := map[string]bool{} // the handler's alone
	if _, err := list.Informer().AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(o any, _ bool) { wasReady[o.(*corev1.Node).Name] = nodeReady(o.(*corev1.Node)) },
		UpdateFunc: func(_, o any) {
			n := o.(*corev1.Node)
			if ready := nodeReady(n); ready != wasReady[n.Name] {
				if wasReady[n.Name] = ready; !ready {
					lost <- n.Name
				}
			}
		},
	}); err != nil {
		t.Fatal(err)
	}
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	defer cancel()
	if !cache.WaitForCacheSync(ctx.Done(), list.Informer().HasSynced, leases.Informer().HasSynced) {
		t.Fatal("nodes and Leases are not read")
	}
	renewedSince := func(since time.Time) error {
		n := 0
		for _, o := range leases.Informer().GetStore().List() {
			l := o.(*coordinationv1.Lease)
			if l.Namespace == corev1.NamespaceNodeLease && l.Spec.RenewTime != nil && l.Spec.RenewTime.After(since) {
				n++
			}
		}
		if n != nodes {
			return fmt.Errorf("%d of %d Leases were renewed since %s", n, nodes, since)
		}
		return nil
	}
	end := time.NewTimer(watched)
	defer end.Stop()
	select {
	case name := <-lost:
		t.Errorf("node %s was lost although it beats", name)
	case <-end.C:
	}
	eventually(t, func(context.Context) error { return renewedSince(time.Now().Add(-16 * time.Second)) })
	all, err := e.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(all.Items) != nodes {
		t.Fatalf("%d nodes, %v", len(all.Items), err)
	}
	for i := range all.Items {
		if !nodeReady(&all.Items[i]) {
			t.Errorf("node %s is not Ready", all.Items[i].Name)
		}
	}

	if err := h.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	gone := map[string]bool{}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for len(gone) < nodes {
		select {
		case name := <-lost:
			gone[name] = true
		case <-limit.C:
			t.Fatalf("%d of %d nodes are lost after their process stands still", len(gone), nodes)
		}
	}
	// It may have stood still for longer than its names are its own, and would say so.
	if err := h.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	h.ended(t)
	e.stop(t)
}
