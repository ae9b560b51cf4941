package nodelifecycle

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// NC-7, T-20: while all nodes are silent none is tainted, and taints are taken
// back; when one comes back, the others have their grace period anew.
func TestAllDown(t *testing.T) {
	ctx := t.Context()
	nodes := []*corev1.Node{node("a", corev1.ConditionTrue), node("b", corev1.ConditionTrue)}
	client := fake.NewClientset(nodes[0], nodes[1])
	l := unstarted(t, client)
	clock := time.Now()
	l.now = func() time.Time { return clock }
	refresh := func(beats ...string) map[string]*corev1.Node {
		t.Helper()
		list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]*corev1.Node{}
		for i := range list.Items {
			n := &list.Items[i]
			for _, name := range beats {
				if n.Name == name {
					c := condition(&n.Status, corev1.NodeReady)
					c.Status, c.LastHeartbeatTime = corev1.ConditionTrue, metav1.NewTime(clock)
					if _, err := client.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := l.informers.nodes.GetStore().Update(n); err != nil {
				t.Fatal(err)
			}
			out[n.Name] = n
		}
		return out
	}
	pass := func(beats ...string) map[string]*corev1.Node {
		refresh(beats...)
		l.monitor(ctx)
		refresh()
		l.taintUnhealthy(ctx)
		return refresh()
	}
	pass("a", "b")
	clock = clock.Add(51 * time.Second)
	if got := words(pass("a")["b"].Spec.Taints); got != "unreachable:NoExecute" {
		t.Fatalf("one of two is silent: taints %q", got)
	}
	clock = clock.Add(51 * time.Second)
	after := pass()
	for name, n := range after {
		if condition(&n.Status, corev1.NodeReady).Status != corev1.ConditionUnknown || len(n.Spec.Taints) != 0 {
			t.Errorf("all silent: node %s has %v, taints %q", name, condition(&n.Status, corev1.NodeReady).Status, words(n.Spec.Taints))
		}
	}
	clock = clock.Add(51 * time.Second)
	pass("a")
	for name, h := range l.health {
		if !h.seen.Equal(clock) {
			t.Errorf("node %s has no new grace period: %s", name, clock.Sub(h.seen))
		}
	}
	clock = clock.Add(20 * time.Second)
	if got := words(pass("a")["b"].Spec.Taints); got != "unreachable:NoExecute" {
		t.Errorf("one came back: the other has taints %q", got)
	}
}

// The old labels follow the new ones, and nothing is written without need.
func TestLabels(t *testing.T) {
	ctx := t.Context()
	n := node("n", corev1.ConditionTrue)
	n.Labels = map[string]string{corev1.LabelOSStable: "linux", corev1.LabelArchStable: "arm64", "beta.kubernetes.io/arch": "amd64"}
	client := fake.NewClientset(n)
	l := unstarted(t, client)
	for range 2 {
		client.ClearActions()
		if err := l.syncLabels(ctx, n); err != nil {
			t.Fatal(err)
		}
		var err error
		if n, err = client.CoreV1().Nodes().Get(ctx, "n", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if n.Labels["beta.kubernetes.io/os"] != "linux" || n.Labels["beta.kubernetes.io/arch"] != "arm64" {
		t.Errorf("labels %v", n.Labels)
	}
	if len(client.Actions()) != 1 {
		t.Errorf("written again: %v", client.Actions())
	}
}

func TestConfig(t *testing.T) {
	for in, want := range map[string]string{
		``: "", `{"nodeMonitorGracePeriod":"4s","nodeEvictionRate":2}`: "",
		`{"nodeEvictionrates":1}`:          "unknown field",
		`{"nodeMonitorPeriod":"0s"}`:       "nodeMonitorPeriod: 0s is less than 100ms",
		`{"secondaryNodeEvictionRate":-1}`: "secondaryNodeEvictionRate: -1 is less than 0",
		`{"largeClusterSizeThreshold":-1}`: "largeClusterSizeThreshold: -1 is less than 0",
		`{"unhealthyZoneThreshold":0}`:     "unhealthyZoneThreshold: 0 is not above 0 and at most 1",
	} {
		c, err := readConfig([]byte(in))
		if want == "" && (err != nil || c.NodeStartupGracePeriod.Duration != time.Minute) {
			t.Errorf("%s: %+v, %v", in, c, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
}
