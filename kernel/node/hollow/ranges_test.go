package hollow

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"pintle.dev/pintle/kernel/config"
)

// TestHollowCIDR: ranges of hollow nodes are apart, within the range of all,
// and hold what a node takes.
func TestHollowCIDR(t *testing.T) {
	all := netip.MustParsePrefix(config.HollowPodRange)
	last := netip.Prefix{}
	for _, i := range []int{0, 1, 2, 511, 512, 65535} {
		s, err := hollowCIDR(i)
		if err != nil {
			t.Fatal(err)
		}
		p := netip.MustParsePrefix(s)
		if p.Bits() != hollowCIDRBits || p != p.Masked() || !all.Contains(p.Addr()) || last.IsValid() && p.Overlaps(last) {
			t.Errorf("node %d has %s after %s", i, p, last)
		}
		last = p
	}
	for _, i := range []int{-1, 65536} {
		if s, err := hollowCIDR(i); err == nil {
			t.Errorf("node %d has %s", i, s)
		}
	}
}

func ranged4(name, cidr string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDR: cidr}}
	if cidr != "" {
		n.Spec.PodCIDRs = []string{cidr}
	}
	return n
}

// TestShareHollowRanges: nodes keep what they have, and get what nobody else
// has or is promised.
func TestShareHollowRanges(t *testing.T) {
	cidr := func(number int) string {
		s, err := hollowCIDR(number)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for name, tc := range map[string]struct {
		claims map[string]string
		nodes  []corev1.Node
		n      int
		want   []int
		claim  string
	}{
		"the first kernel":  {n: 3, want: []int{0, 1, 2}, claim: "0-2"},
		"beside another":    {claims: map[string]string{"b-0": "0-1,3"}, n: 3, want: []int{2, 4, 5}, claim: "2,4-5"},
		"a restart":         {claims: map[string]string{"a-0": "4-6", "b-0": "0-3"}, n: 3, want: []int{4, 5, 6}, claim: "4-6"},
		"more of them":      {claims: map[string]string{"a-0": "0-1", "b-0": "2-3"}, nodes: []corev1.Node{ranged4("a-0", cidr(0)), ranged4("a-1", cidr(1))}, n: 3, want: []int{0, 1, 4}, claim: "0-1,4"},
		"fewer of them":     {claims: map[string]string{"a-0": "0-9"}, n: 1, want: []int{0}, claim: "0-9"},
		"claims were lost":  {nodes: []corev1.Node{ranged4("a-1", cidr(7)), ranged4("b-0", cidr(0))}, n: 2, want: []int{1, 7}, claim: "1,7"},
		"one came first":    {claims: map[string]string{"a-0": "0-2"}, nodes: []corev1.Node{ranged4("a-2", cidr(0))}, n: 3, want: []int{1, 2, 0}, claim: "0-2"},
		"a larger range":    {nodes: []corev1.Node{ranged4("real", "10.128.1.0/24"), ranged4("other", "10.244.0.0/24"), ranged4("none", "")}, n: 4, want: []int{0, 1, 4, 5}, claim: "0-1,4-5"},
		"names of no use":   {nodes: []corev1.Node{ranged4("a-00", cidr(0)), ranged4("a-x", cidr(1)), ranged4("a-5", cidr(2))}, n: 1, want: []int{3}, claim: "3"},
		"one number beside": {claims: map[string]string{"b-0": "1"}, n: 2, want: []int{0, 2}, claim: "0,2"},
	} {
		got, claim, err := shareHollowRanges(tc.claims, tc.nodes, "a-", tc.n)
		if err != nil || claim != tc.claim || len(got) != len(tc.want) {
			t.Errorf("%s: %v, claim %q, %v", name, got, claim, err)
			continue
		}
		for i, r := range got {
			if r.number != tc.want[i] || r.podCIDR != cidr(tc.want[i]) {
				t.Errorf("%s: node %d has %v, want number %d", name, i, r, tc.want[i])
			}
		}
	}
	// A range that somebody else chose for a node is its range.
	if got, _, err := shareHollowRanges(nil, []corev1.Node{ranged4("a-0", "10.9.0.0/24")}, "a-", 1); err != nil || got[0] != (hollowRange{0, "10.9.0.0/24"}) {
		t.Errorf("%v %v", got, err)
	}
	for name, claims := range map[string]map[string]string{
		"all taken": {"b-0": "0-65535"}, "no numbers": {"b-0": "x"}, "reversed": {"b-0": "9-3"}, "too high": {"b-0": "3,65536"}, "own": {"a-0": "-1"},
	} {
		if got, _, err := shareHollowRanges(claims, nil, "a-", 1); err == nil || !strings.Contains(err.Error(), Claims) {
			t.Errorf("%s: %v %v", name, got, err)
		}
	}
}

// TestClaimHollowRanges: kernels that start at the same time on one cluster,
// and come back, have ranges apart from each other's.
func TestClaimHollowRanges(t *testing.T) {
	client := fake.NewClientset()
	var mu sync.Mutex
	refused := 0
	client.PrependReactor("update", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		next := action.(clienttesting.UpdateAction).GetObject().(*corev1.ConfigMap).DeepCopy()
		have, err := client.Tracker().Get(action.GetResource(), action.GetNamespace(), next.Name)
		if err != nil {
			return true, nil, err
		}
		if have := have.(*corev1.ConfigMap); have.ResourceVersion != next.ResourceVersion {
			refused++
			return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), next.Name, nil)
		}
		version, _ := strconv.Atoi(next.ResourceVersion)
		next.ResourceVersion = strconv.Itoa(version + 1)
		return true, next, client.Tracker().Update(action.GetResource(), next, action.GetNamespace())
	})
	const kernels, nodes = 5, 40
	for round := range 2 {
		var wg sync.WaitGroup
		all := make([][]hollowRange, kernels)
		for kernel := range kernels {
			wg.Go(func() {
				var err error
				prefix := fmt.Sprintf("kernel%d-", kernel)
				if all[kernel], err = claimHollowRanges(t.Context(), client, prefix, nodes); err != nil {
					t.Error(err)
				}
				for i, r := range all[kernel][:nodes/2] {
					node := ranged4(fmt.Sprint(prefix, i), r.podCIDR)
					if _, err := client.CoreV1().Nodes().Create(context.WithoutCancel(t.Context()), &node, metav1.CreateOptions{}); err != nil && round == 0 {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		seen, addresses := map[string]string{}, map[string]bool{}
		for kernel, ranges := range all {
			for i, r := range ranges {
				name := fmt.Sprintf("kernel%d-%d", kernel, i)
				if seen[r.podCIDR] != "" || addresses[hollowIP(r.number).String()] {
					t.Errorf("%s has %v as %s", name, r, seen[r.podCIDR])
				}
				seen[r.podCIDR], addresses[hollowIP(r.number).String()] = name, true
			}
		}
		if len(seen) != kernels*nodes {
			t.Errorf("%d ranges", len(seen))
		}
	}
	t.Logf("%d claims were too late", refused)
}
