package nodepart

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/dualstack"
)

func ranged0(name, cidr string, registered int64) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(registered, 0)}}
	if cidr != "" {
		n.Spec.PodCIDR, n.Spec.PodCIDRs = cidr, []string{cidr}
	}
	return n
}

// TestPodRanges: D9: a node whose range another node has is refused, by name of both.
func TestPodRanges(t *testing.T) {
	for _, c := range []struct {
		own   string
		nodes []*corev1.Node
		fault string
	}{
		{"10.244.0.0/24", nil, ""},
		{"10.244.0.0/24", []*corev1.Node{ranged0("a", "10.244.0.0/24", 1)}, ""}, // itself, as at a restart
		{"10.244.0.0/24", []*corev1.Node{ranged0("b", "10.244.1.0/24", 1), ranged0("c", "", 1), ranged0("d", "nonsense", 1)}, ""},
		{"10.244.0.0/24", []*corev1.Node{ranged0("b", "10.244.0.0/24", 1)}, "node a: its range of pod IPs, node.podCIDR 10.244.0.0/24, overlaps 10.244.0.0/24 of node b"},
		{"10.244.0.0/16", []*corev1.Node{ranged0("b", "10.244.7.0/24", 1)}, "overlaps 10.244.7.0/24 of node b"},
		{"10.244.7.0/24", []*corev1.Node{ranged0("b", "10.244.0.0/16", 1)}, "overlaps 10.244.0.0/16 of node b"},
		// Of two the later one gives way.
		{"10.244.0.0/24", []*corev1.Node{ranged0("a", "10.244.0.0/24", 1), ranged0("b", "10.244.0.0/24", 2)}, ""},
		{"10.244.0.0/24", []*corev1.Node{ranged0("a", "10.244.0.0/24", 2), ranged0("b", "10.244.0.0/24", 1)}, "of node b"},
		{"10.244.0.0/24", []*corev1.Node{ranged0("a", "10.244.0.0/24", 1), ranged0("b", "10.244.0.0/24", 1)}, ""},
	} {
		client := fake.NewClientset()
		for _, n := range c.nodes {
			if _, err := client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		err := checkPodRange(t.Context(), client, &config.Config{Node: config.Node{PodCIDR: c.own}}, "a")
		if (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s beside %v: %v, want %q", c.own, c.nodes, err, c.fault)
		}
	}
	// The other one of the last pair is the one that goes.
	both := []corev1.Node{*ranged0("a", "10.244.0.0/24", 1), *ranged0("b", "10.244.0.0/24", 1)}
	if err := overlapping(netip.MustParsePrefix("10.244.0.0/24"), "b", both); err == nil {
		t.Error("two nodes with one range go on")
	}
}

// waiting is a configuration that names no range.
func waiting() *config.Config {
	return &config.Config{API: config.API{ServiceCIDR: "10.96.0.0/16"}, Node: config.Node{Labels: map[string]string{"a": "b"}, RegisterWithTaints: []config.Taint{{Key: "mine", Effect: "NoSchedule"}}}}
}

// A node whose configuration names no range registers, waits as long as it takes, and takes what its Node is given. What
// is missing is said once.
func TestGivenPodRange(t *testing.T) {
	const empty = "node a: spec.podCIDRs is empty"
	for name, c := range map[string]struct {
		there *corev1.Node
		later []string // given after a while
		anew  bool     // the Node is deleted after a longer while, and given a range that can be used
		want  string
		waits []string
	}{
		"given before":      {there: ranged0("a", "10.244.3.0/24", 1), want: "10.244.3.0/24"},
		"given later":       {later: []string{"10.244.4.0/24"}, want: "10.244.4.0/24", waits: []string{empty}},
		"there without one": {there: ranged0("a", "", 1), later: []string{"fd00::/64", "10.244.5.0/24"}, want: "10.244.5.0/24,fd00::/64", waits: []string{empty}},
		"of both families":  {later: []string{"10.244.6.0/24", "fd00:6::/64"}, want: "10.244.6.0/24,fd00:6::/64", waits: []string{empty}},
		"another family": {later: []string{"fd00::/64"}, anew: true, want: "10.244.9.0/24",
			waits: []string{empty, "none of its ranges of pod IPs, [fd00::/64], is of the family of api.serviceCIDR 10.96.0.0/16", empty}},
		"that of services": {later: []string{"10.96.7.0/24"}, anew: true, want: "10.244.9.0/24", waits: []string{empty, "10.96.7.0/24, overlaps api.serviceCIDR 10.96.0.0/16", empty}},
		"nonsense":         {later: []string{"nonsense"}, anew: true, want: "10.244.9.0/24", waits: []string{empty, "none of its ranges", empty}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := fake.NewClientset()
				nodes := client.CoreV1().Nodes()
				if c.there != nil {
					if _, err := nodes.Create(t.Context(), c.there, metav1.CreateOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				give := func(ranges []string) {
					n, err := nodes.Get(t.Context(), "a", metav1.GetOptions{})
					if err == nil {
						n.Spec.PodCIDRs = ranges
						_, err = nodes.Update(t.Context(), n, metav1.UpdateOptions{})
					}
					if err != nil {
						t.Error(err)
					}
				}
				if c.later != nil {
					time.AfterFunc(time.Hour, func() { give(c.later) })
				}
				if c.anew {
					time.AfterFunc(2*time.Hour, func() {
						if err := nodes.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
							t.Error(err)
						}
					})
					time.AfterFunc(3*time.Hour, func() { give([]string{"10.244.9.0/24"}) })
				}
				var waits []string
				got := givenPodRange(t.Context(), client, waiting(), "a", func(problem error) { waits = append(waits, problem.Error()) })
				if got != c.want || !slices.EqualFunc(waits, c.waits, strings.Contains) {
					t.Errorf("%q, waited for %q", got, waits)
				}
				n, err := nodes.Get(t.Context(), "a", metav1.GetOptions{})
				if err != nil || c.there == nil && (n.Labels["a"] != "b" || len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Key != "mine") {
					t.Errorf("%+v, %v", n, err)
				}
			})
		})
	}
}

// A node waits for its range until the process ends, and says once what is missing.
func TestWaitForPodRange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		client := fake.NewClientset()
		calls := 0
		client.PrependReactor("get", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
			if calls++; calls < 3 {
				return true, nil, errors.New("no answer")
			}
			return false, nil, nil
		})
		p, err := New(Config{Name: "a", Settings: waiting}, Deps{Client: client, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		time.AfterFunc(24*time.Hour, stop)
		begin := time.Now()
		if err := p.Run(ctx); err != nil || time.Since(begin) < 24*time.Hour {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
		if err := p.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "waits for a range of pod IPs"); n != 2 || !strings.Contains(log.String(), "no answer") || !strings.Contains(log.String(), "spec.podCIDRs is empty") {
			t.Errorf("log:\n%s", log.String())
		}
	})
}

// A machine without a kernel does not choose its range.
func TestWithoutKernel(t *testing.T) {
	for want, change := range map[string]func(*config.Config){
		"node.podCIDR: is 10.244.9.0/24": func(c *config.Config) { c.Node.PodCIDR = "10.244.9.0/24" },
	} {
		cfg := waiting()
		change(cfg)
		if _, err := New(Config{Settings: func() *config.Config { return cfg }}, Deps{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if _, err := New(Config{Settings: func() *config.Config { return cfg }}, Deps{Cluster: fake.NewClientset()}); err != nil {
			t.Errorf("with a kernel: %v", err)
		}
	}
}

// A kernel's node whose range another one has does not end the kernel: it says so once, and takes the range when the
// other Node is deleted, or waits until the process ends.
func TestTakenRange(t *testing.T) {
	for name, tt := range map[string]struct {
		own     string // node.podCIDR; empty: given
		deleted bool
		want    string
	}{
		"fixed, freed later": {own: "10.244.0.0/24", deleted: true, want: "10.244.0.0/24"},
		"given, freed later": {deleted: true, want: "10.244.0.0/16"},
		"until the end":      {own: "10.244.0.0/24"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				client := fake.NewClientset(ranged0("other", "10.244.0.0/24", 1), ranged0("a", "10.244.0.0/16", 2))
				cfg := waiting()
				cfg.Node.PodCIDR = tt.own
				p, err := New(Config{Name: "a", Settings: func() *config.Config { return cfg }},
					Deps{Client: client, Cluster: client, Logger: slog.New(slog.NewTextHandler(&log, nil))})
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithTimeout(t.Context(), 24*time.Hour)
				defer stop()
				if tt.deleted {
					time.AfterFunc(time.Hour, func() {
						if err := client.CoreV1().Nodes().Delete(t.Context(), "other", metav1.DeleteOptions{}); err != nil {
							t.Error(err)
						}
					})
				}
				got, err := p.freeRange(ctx)
				if err != nil || (got == nil) != (tt.want == "") || got != nil && got.Node.PodCIDR != tt.want {
					t.Errorf("%+v, %v", got, err)
				}
				if n := strings.Count(log.String(), "of node other"); n != 1 {
					t.Errorf("said %d times:\n%s", n, log.String())
				}
			})
		})
	}
}

// A cluster whose services have both families needs ranges of both, and its first family is the pods'.
func TestGivenFamilies(t *testing.T) {
	for _, tt := range []struct {
		services     string
		given        []string
		want, refuse string
	}{
		{"10.96.0.0/16,fd00:96::/112", []string{"10.244.1.0/24", "fd00:244::/64"}, "10.244.1.0/24,fd00:244::/64", ""},
		{"fd00:96::/112,10.96.0.0/16", []string{"10.244.1.0/24", "fd00:244::/64"}, "fd00:244::/64,10.244.1.0/24", ""},
		{"fd00:96::/112", []string{"fd00:244::/64"}, "fd00:244::/64", ""},
		{"10.96.0.0/16,fd00:96::/112", []string{"10.244.1.0/24"}, "", "none of its ranges of pod IPs, [10.244.1.0/24], is of the family of api.serviceCIDR fd00:96::/112"},
		{"10.96.0.0/16,fd00:96::/112", []string{"10.244.1.0/24", "fd00:96::/64"}, "", "fd00:96::/64, overlaps api.serviceCIDR fd00:96::/112"},
		{"10.96.0.0/16", []string{"10.244.1.0/24", "10.244.2.0/24"}, "10.244.1.0/24", ""},
	} {
		cfg := &config.Config{API: config.API{ServiceCIDR: tt.services}}
		got, err := ofServices(cfg, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.NodeSpec{PodCIDRs: tt.given}})
		if got != tt.want || (err == nil) != (tt.refuse == "") || err != nil && !strings.Contains(err.Error(), tt.refuse) {
			t.Errorf("%s of %v: %q, %v", tt.services, tt.given, got, err)
		}
	}
	// Each range is compared with those of other nodes.
	other := ranged0("b", "10.244.9.0/24", 1)
	other.Spec.PodCIDRs = append(other.Spec.PodCIDRs, "fd00:244::/64")
	err := checkPodRange(t.Context(), fake.NewClientset(other), &config.Config{Node: config.Node{PodCIDR: "10.244.1.0/24,fd00:244::/64"}}, "a")
	if !errors.Is(err, errRangeTaken) || !strings.Contains(err.Error(), "fd00:244::/64 of node b") {
		t.Error(err)
	}
}

// TestAddresses: what is configured counts; else the first is of the cluster's first family, or loopback.
func TestAddresses(t *testing.T) {
	for _, tt := range []struct{ services, pods, given, want string }{
		{"10.96.0.0/16", "10.244.0.0/24", "192.0.2.1", "192.0.2.1"},
		{"10.96.0.0/16,fd00:96::/112", "", "192.0.2.1, 2001:db8::1", "192.0.2.1,2001:db8::1"},
		{"fd00:96::/112,10.96.0.0/16", "", "2001:db8::1,192.0.2.1", "2001:db8::1,192.0.2.1"},
	} {
		cfg := &config.Config{API: config.API{ServiceCIDR: tt.services}, Node: config.Node{PodCIDR: tt.pods, Address: tt.given}}
		if got := dualstack.Join(Addresses(cfg)); got != tt.want {
			t.Errorf("%+v: %s", tt, got)
		}
		cfg.Node.Address = ""
		found := Addresses(cfg)
		if len(found) == 0 || len(found) > 2 {
			t.Errorf("%+v: found %v", tt, found)
		}
		if ofFamily(!strings.HasPrefix(tt.services, "fd")) != nil && (found[0].To4() == nil) != strings.HasPrefix(tt.services, "fd") {
			t.Errorf("%+v: found %v", tt, found)
		}
		if len(found) == 2 && (found[0].To4() == nil) == (found[1].To4() == nil) {
			t.Errorf("%+v: found %v of one family", tt, found)
		}
	}
	if got := families(&config.Config{API: config.API{ServiceCIDR: "10.96.0.0/16"}, Node: config.Node{ClusterCIDRs: []string{"10.244.0.0/16", "fd00::/48"}}}); !slices.Equal(got, []bool{true, false}) {
		t.Errorf("families %v", got)
	}
}
