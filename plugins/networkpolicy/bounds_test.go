package networkpolicy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/plugins/networkpolicy/program"
	"pintle.dev/pintle/plugins/networkpolicy/truth"
)

// named is a policy of a namespace that takes some room.
func named(namespace, name string, peers int) *networkingv1.NetworkPolicy {
	p := truth.Policy("spec: {podSelector: {matchLabels: {pod: x}}, ingress: [{from: [{podSelector: {}}]}]}")
	p.Namespace, p.Name, p.UID = namespace, name, "1"
	for range peers {
		p.Spec.Ingress[0].From = append(p.Spec.Ingress[0].From, networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}})
	}
	return p
}

func (k *keeper) whole(t *testing.T, p *networkingv1.NetworkPolicy) bool {
	t.Helper()
	o, err := k.slim(p)
	if err != nil {
		t.Fatal(err)
	}
	out := o.(*networkingv1.NetworkPolicy)
	if out.Annotations[program.NotKept] != "" && (len(out.Spec.Ingress)+len(out.Spec.Egress) > 0 || len(out.Spec.PolicyTypes) == 0) {
		t.Errorf("of a policy that is not kept there is %+v", out.Spec)
	}
	return out.Annotations[program.NotKept] == ""
}

// TestKeeper: what is kept of one namespace is bounded, whatever another one has. Of a policy
// that is not kept its subject and directions are.
func TestKeeper(t *testing.T) {
	k := newKeeper(100_000)
	kept := 0
	for i := range 1000 {
		if k.whole(t, named("a", fmt.Sprint("p", i), 10)) {
			kept++
		}
	}
	if kept == 0 || kept > 100_000/weigh(&named("a", "p", 10).Spec) || k.total["a"] > k.limit {
		t.Errorf("%d policies are kept, %d bytes", kept, k.total["a"])
	}
	if !k.whole(t, named("b", "p", 10)) {
		t.Error("another namespace has no room")
	}
	if k.whole(t, named("c", "huge", 10_000)) || k.room() {
		t.Error("a policy that is larger than all room is kept, or would be")
	}
	// The same again takes no more.
	for range 100 {
		if !k.whole(t, named("a", "p0", 10)) {
			t.Fatal("a policy that was kept is not when it comes again")
		}
	}
	for i := range 20 {
		p := named("a", fmt.Sprint("p", i), 0)
		if i%2 == 0 {
			k.gone(p)
		} else {
			k.gone(cache.DeletedFinalStateUnknown{Key: "a/p", Obj: p})
		}
	}
	if !k.room() {
		t.Error("policies went, and there is no room")
	}
	for i := range 1000 {
		k.gone(named("a", fmt.Sprint("p", i), 0))
	}
	k.gone(named("b", "p", 0))
	k.gone(named("c", "huge", 0))
	if len(k.kept)+len(k.left)+len(k.total) > 0 {
		t.Errorf("without policies it remembers %v %v %v", k.kept, k.left, k.total)
	}
	// A subject that is large itself becomes every pod; directions are kept.
	large := named("a", "subject", 0)
	large.Spec.PodSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: make([]string, 10_000)}}
	large.Spec.PolicyTypes, large.Spec.Egress = nil, []networkingv1.NetworkPolicyEgressRule{{}}
	o, _ := k.slim(large)
	s := o.(*networkingv1.NetworkPolicy).Spec
	if len(s.PodSelector.MatchExpressions)+len(s.PodSelector.MatchLabels) > 0 || !slices.Equal(s.PolicyTypes, []networkingv1.PolicyType{"Ingress", "Egress"}) {
		t.Errorf("of a large subject there is %+v", s)
	}
	// What it returned it returns again, and counts no policy as kept for it.
	huge := named("d", "huge", 10_000)
	once, _ := k.slim(huge)
	twice, _ := k.slim(once)
	if once != twice || len(k.left["d"]) != 1 || len(k.kept["d"]) != 0 {
		t.Errorf("slimmed twice: %v, then %v; kept %v, left %v", once, twice, k.kept["d"], k.left["d"])
	}
	// A user who writes the annotation gets no more room by it.
	huge.Annotations = map[string]string{program.NotKept: "true"}
	if o, _ := k.slim(huge); len(o.(*networkingv1.NetworkPolicy).Spec.Ingress) > 0 {
		t.Error("an annotation of a user lets a policy be kept beyond the limit")
	}
	// One that is deleted and made again at once is counted, though its end is heard of late.
	for range 100 {
		before := named("e", "p", 100)
		k.whole(t, before)
		again := named("e", "p", 100)
		again.UID = "2"
		k.whole(t, again)
		k.gone(before)
		if k.total["e"] != weigh(&again.Spec) {
			t.Fatalf("%d bytes are counted", k.total["e"])
		}
	}
	if got, _ := k.slim("nonsense"); got != "nonsense" {
		t.Errorf("%v", got)
	}
}

// TestTeller: for a namespace that does not fit there is an event on its first policy, which
// says what to do. However often users change policies, events are few.
func TestTeller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var events []*corev1.Event
		var budget Budget
		if err := budget.complete(); err != nil {
			t.Fatal(err)
		}
		teller := newTeller(nil, "n", budget, slog.New(slog.DiscardHandler))
		fail := error(nil)
		teller.create = func(_ context.Context, e *corev1.Event) error {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, e)
			return fail
		}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { teller.run(ctx) })
		beyond := func(namespace string, n int) (list []program.Beyond) {
			for i := range n {
				list = append(list, program.Beyond{Policy: named(namespace, fmt.Sprint("p", i), 0), Limit: program.Rules})
			}
			return list
		}
		teller.tell(append(beyond("a", 3), beyond("b", 1)...))
		synctest.Wait()
		if len(events) != 2 {
			t.Fatalf("%d events", len(events))
		}
		slices.SortFunc(events, func(a, b *corev1.Event) int { return strings.Compare(a.Namespace, b.Namespace) })
		e := events[0]
		want := "Not enforced on node n: with this policy, namespace a needs more than its 10000 rules of the packet filter. It allows no connection: the pods that it selects are isolated. 2 more policies of the namespace are not enforced. Delete policies, merge them, or raise namespaceBudget.rules of the plugin networkpolicy."
		if e.Message != want || e.Type != corev1.EventTypeWarning || e.Reason != reasonBeyond || e.InvolvedObject.Kind != "NetworkPolicy" || e.InvolvedObject.Name != "p0" || e.InvolvedObject.UID != "1" || e.Namespace != "a" {
			t.Errorf("%+v", e)
		}
		if strings.Contains(events[1].Message, "more policies") {
			t.Errorf("of one policy: %s", events[1].Message)
		}
		// An attacker changes policies ten times a second for an hour.
		events = nil
		for i := range 36_000 {
			teller.tell(beyond("a", 1+i%2))
			time.Sleep(100 * time.Millisecond)
		}
		if len(events) == 0 || len(events) > 60 {
			t.Errorf("%d events in an hour", len(events))
		}
		// What stays so is said again, seldom, and what ended is not.
		events, fail = nil, errors.New("no")
		teller.tell(beyond("b", 1))
		time.Sleep(time.Hour)
		if len(events) < 3 || len(events) > 7 {
			t.Errorf("%d events in an hour in which nothing changed", len(events))
		}
		teller.tell(nil)
		time.Sleep(time.Hour)
		events = nil
		time.Sleep(time.Hour)
		if len(events) > 0 || len(teller.said) > 0 {
			t.Errorf("%d events of nothing, %v is remembered", len(events), teller.said)
		}
		long := beyond("a", 1)
		long[0].Policy.Name = strings.Repeat("n", 253)
		teller.tell(long)
		synctest.Wait()
		if len(events) != 1 || len(events[0].Name) > 253 {
			t.Errorf("%+v", events)
		}
		cancel()
		group.Wait()
	})
}

// TestFlowsFollow: which addresses' flows are forgotten, and that what fails is tried again.
func TestFlowsFollow(t *testing.T) {
	var fail error
	asked := 0
	var forgotten []string
	f := flows{own: func() ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("10.244.1.1"), netip.MustParseAddr("10.244.2.33")}, nil
	}}
	for _, text := range []string{"10.244.0.0/16", "fd00::/16"} {
		f.ranges = append(f.ranges, netip.MustParsePrefix(text))
	}
	at := netip.MustParseAddr
	f.forget = func(of func(ends) bool) error {
		asked++
		forgotten = nil
		for _, text := range []string{"10.244.1.1", "10.244.1.11", "10.244.1.12", "10.244.1.200", "10.244.2.13", "10.244.2.200", "10.244.2.33", "10.96.0.1", "192.0.2.1", "fd00:1::11"} {
			peer := at("10.244.1.22")
			if got := of(ends{at(text), peer, peer}); got != of(ends{peer, at("10.96.0.10"), at(text)}) || got != of(ends{peer, at(text), at("192.0.2.9")}) {
				t.Errorf("%s: it depends on the direction", text)
			} else if got {
				forgotten = append(forgotten, text)
			}
			for _, peer := range []string{"192.0.2.9", "10.244.2.99", "10.244.1.1"} { // of no pod of this node
				if a := at(text); of(ends{a, at(peer), at(peer)}) && !within(truth.Ranges, a) {
					t.Errorf("a flow of %s and %s is forgotten, which is none of a pod of this node", text, peer)
				}
			}
		}
		return fail
	}
	policy := "spec: {podSelector: {}}"
	step := func(name string, c *program.Cluster, want ...string) {
		t.Helper()
		asked, forgotten = 0, nil
		if err := f.follow(c); !errors.Is(err, fail) {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Equal(forgotten, want) {
			t.Errorf("%s: of %v in %d calls, want %v", name, forgotten, asked, want)
		}
	}
	without := func(name string) *program.Cluster {
		c := truth.World(policy)
		c.Pods = slices.DeleteFunc(c.Pods, func(p *program.Pod) bool { return p.Namespace+"/"+p.Name == name })
		return c
	}
	step("no policy", truth.World())
	fail = errors.New("busy")
	step("the first one", truth.World(policy), "10.244.1.200")
	fail = nil
	step("again", truth.World(policy), "10.244.1.200")
	step("nothing changed", truth.World(policy))
	if asked > 0 {
		t.Error("flows are listed though nothing changed")
	}
	step("a pod goes", without("x/x"), "10.244.1.11", "fd00:1::11")
	step("it comes", truth.World(policy))
	others := func(node string, uid string) *program.Cluster {
		c := truth.World(policy)
		for _, p := range c.Pods {
			if p.Name == node {
				p.UID = uid
			}
		}
		return c
	}
	step("pods of another node are others", others("z", "2"), "10.244.2.13")
	step("pods of this node are others", others("x", "3"), "10.244.1.11", "10.244.2.13", "fd00:1::11")
	step("no policy again", truth.World())

	// Without other ranges, those of this node count alone.
	f.ranges = nil
	step("the first one, without ranges", truth.World(policy), "10.244.1.200")
	step("pods of another node are others, without ranges", others("z", "2"))
	f.own = func() ([]netip.Addr, error) { return nil, fail }
	fail = errors.New("no interfaces")
	step("this machine's addresses are not known", others("x", "3"))
	if asked > 0 || !f.pending() {
		t.Error("flows are forgotten though this machine's addresses are not known")
	}
}

// TestFlowsOfClaims: a node writes the status of its pods. By what it claims there, it cuts no
// flow of others: of the API server, of a service, of another node, of pods of other nodes.
func TestFlowsOfClaims(t *testing.T) {
	machine, far := netip.MustParseAddr("10.244.3.1"), netip.MustParseAddr("10.244.2.13")
	claimed := []netip.Addr{
		netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("10.244.1.1"), machine,
		truth.Address("x/x", program.IP4), truth.Address("x/y", program.IP6), far,
	}
	for _, old := range []bool{false, true} {
		f := flows{own: func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("10.244.1.1"), machine}, nil }}
		f.ranges = []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00::/16")}
		var cut []netip.Addr
		f.forget = func(of func(ends) bool) error {
			for _, a := range claimed {
				for _, peer := range []netip.Addr{truth.Address("y/y", program.IP4), truth.Address("y/y", program.IP6), netip.MustParseAddr("192.0.2.9"), machine} {
					if of(ends{a, peer, peer}) || of(ends{peer, a, a}) || of(ends{peer, netip.MustParseAddr("10.96.0.10"), a}) {
						cut = append(cut, a)
					}
				}
			}
			return nil
		}
		world := func(addresses ...netip.Addr) *program.Cluster {
			c := truth.World("spec: {podSelector: {}}")
			now := time.Unix(1_000_000, 0)
			for _, p := range c.Pods {
				p.Created = now
			}
			hostile := &program.Pod{Namespace: "z", Name: "hostile", UID: "9", Created: now.Add(time.Hour), Addresses: append(addresses, netip.MustParseAddr("10.244.2.66"))}
			if old {
				hostile.Created = now.Add(-time.Hour)
			}
			c.Pods = append(c.Pods, hostile)
			return c
		}
		for i, c := range []*program.Cluster{world(), world(claimed...), world(), world(claimed...), world(claimed[2:]...), world()} {
			if err := f.follow(c); err != nil {
				t.Fatal(err)
			}
			if len(cut) > 0 {
				t.Errorf("an old pod: %t, step %d: flows of %v are cut", old, i, cut)
			}
		}
		// What another node's pod really was is still noticed.
		c := world()
		c.Pods = slices.DeleteFunc(c.Pods, func(p *program.Pod) bool { return slices.Contains(p.Addresses, far) })
		if err := f.follow(c); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(cut, far) {
			t.Error("flows of a pod that went are not forgotten")
		}
	}
}

// TestBudgetOfConfiguration: defaults, what is read, and what is refused.
func TestBudgetOfConfiguration(t *testing.T) {
	c, err := parseConfig(nil)
	if err != nil || c.NamespaceBudget.program() != program.DefaultBudget || c.NamespaceBudget.Bytes != defaultBytes {
		t.Errorf("%+v, %v", c, err)
	}
	c, err = parseConfig([]byte(`{"namespaceBudget": {"rules": 500, "bytes": 1000000}}`))
	if err != nil || c.NamespaceBudget.Rules != 500 || c.NamespaceBudget.Bytes != 1000000 || c.NamespaceBudget.Sets != program.DefaultBudget.Sets {
		t.Errorf("%+v, %v", c, err)
	}
	for _, text := range []string{`{"rules": 1}`, `{"rules": -1}`, `{"sets": 2000000000}`, `{"other": 1}`, `{"bytes": 1}`} {
		if _, err := parseConfig(json.RawMessage(`{"namespaceBudget": ` + text + `}`)); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}
