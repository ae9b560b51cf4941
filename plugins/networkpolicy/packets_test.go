package networkpolicy

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/plugins/networkpolicy/program"
	"pintle.dev/pintle/plugins/networkpolicy/table"
	"pintle.dev/pintle/plugins/networkpolicy/truth"
	"pintle.dev/pintle/sdk/proxy"
)

// onField is an enforcer on the node of a field, with real rules and flows.
func onField(t *testing.T, f *truth.Field, w *world, config string) (*Enforcer, *run) {
	t.Helper()
	proc, state := machine(t)
	e := &Enforcer{proc: proc, open: func() (filter, error) {
		var opened *table.Table
		err := f.Node.Do(func() (err error) {
			opened, err = table.Open()
			return err
		})
		return opened, err
	}}
	r, err := e.prepare(proxy.Options{
		NodeName: "n", PodCIDRs: []string{truth.Ranges[0].String(), truth.Ranges[1].String()}, StateDirectory: state,
		Config: []byte(config), Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.connect(truth.Bridge)
	r.cluster, r.links = w.get, w.links
	r.flows.forget = func(of func(ends) bool) error {
		return f.Node.Do(func() error { return forgetFlows(of) })
	}
	ctx, cancel := context.WithCancel(t.Context())
	e.begin(ctx, cancel, r)
	t.Cleanup(func() {
		if err := e.Stop(context.WithoutCancel(t.Context()), true); err != nil {
			t.Error(err)
		}
	})
	return e, r
}

// enforced waits until a cluster is in force.
func (w *world) enforced(t *testing.T, e *Enforcer, r *run, c *program.Cluster) {
	t.Helper()
	before := e.Status().Generation
	w.set(c)
	r.poke()
	for limit := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if s := e.Status(); s.Ready && s.Generation > before {
			return
		} else if time.Now().After(limit) {
			t.Fatalf("not enforced: %+v", s)
		}
	}
}

// hoard are policies of namespace x by somebody who wants to use the node up: each with many
// selectors of its own, for all pods of the cluster, and for each of them many ports.
func hoard(policies, selectors, ports int) []*networkingv1.NetworkPolicy {
	var list []*networkingv1.NetworkPolicy
	for i := range policies {
		p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: fmt.Sprintf("hoard-%05d", i)}}
		p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
		var peers []networkingv1.NetworkPolicyPeer
		for n := range selectors {
			peers = append(peers, networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{}, PodSelector: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pod", Operator: metav1.LabelSelectorOpNotIn, Values: []string{fmt.Sprintf("no-%d-%d", i, n)}}},
			}})
		}
		var list1 []networkingv1.NetworkPolicyPort
		for n := range ports {
			list1 = append(list1, truth.Policy(fmt.Sprintf("spec: {ingress: [{ports: [{port: %d}]}]}", 1000+2*n)).Spec.Ingress[0].Ports...)
		}
		for n := range peers {
			p.Spec.Ingress = append(p.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{From: peers[n : n+1], Ports: list1})
		}
		p.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{To: peers}}
		list = append(list, p)
	}
	return list
}

func peak(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return strings.TrimSpace(value)
		}
	}
	return "not known"
}

// TestOneUserHarmsNobody: somebody has 5,000 policies with many selectors each in one
// namespace. What they take of the node is bounded, the pods that they select are isolated, and
// a policy of another namespace takes effect on real packets all the same.
func TestOneUserHarmsNobody(t *testing.T) {
	f := truth.Lay(t)
	w := &world{}
	e, r := onField(t, f, w, "")
	c := truth.World()
	for i := range 2000 { // of other nodes
		c.Pods = append(c.Pods, &program.Pod{
			Namespace: "z", Name: fmt.Sprint("far", i), Labels: map[string]string{"pod": fmt.Sprint("far", i)},
			Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 244, byte(100 + i>>8), byte(i)})},
		})
	}
	// As the plugin keeps them: beyond the bytes of its budget a namespace's rules are not kept.
	t.Logf("peak of memory before: %s", peak(t))
	k := newKeeper(defaultBytes)
	var attack []*networkingv1.NetworkPolicy
	for _, p := range hoard(5000, 20, 3) {
		o, err := k.slim(p)
		if err != nil {
			t.Fatal(err)
		}
		attack = append(attack, o.(*networkingv1.NetworkPolicy))
	}
	t.Logf("peak of memory with 5,000 policies of 20 selectors: %s", peak(t))
	with := func(policies ...string) *program.Cluster {
		next := *c
		next.Policies = slices.Clone(attack)
		for _, text := range policies {
			next.Policies = append(next.Policies, truth.Policy(text))
		}
		return &next
	}
	begun := time.Now()
	w.enforced(t, e, r, with())
	t.Logf("they are in force after %s: %s", time.Since(begun), e.Status().Message)
	ask := func(when, from, to string, want bool) {
		t.Helper()
		if !truth.Probe(t.Context(), f.Hosts[from], f.Hosts[to], truth.Address(to, program.IP4), program.TCP, 80, want) {
			t.Errorf("%s: %s to %s: want %t", when, from, to, want)
		}
	}
	ask("with the policies of x", "z/x", "y/x", true)
	ask("with the policies of x", "z/x", "x/y", false)
	for i, step := range []struct {
		policy string
		passes bool
	}{
		{"metadata: {namespace: 'y', name: own}\nspec: {podSelector: {}}", false},
		{"metadata: {namespace: 'y', name: own}\nspec: {podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {ns: z}}}]}]}", true},
		{"metadata: {namespace: 'y', name: own}\nspec: {podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {ns: q}}}]}]}", false},
	} {
		begun := time.Now()
		w.enforced(t, e, r, with(step.policy))
		t.Logf("step %d: another namespace's policy is in force after %s", i, time.Since(begun))
		ask(fmt.Sprint("step ", i), "z/x", "y/x", step.passes)
		ask(fmt.Sprint("step ", i), "z/x", "x/y", false)
		ask(fmt.Sprint("step ", i), "z/x", "y/x", step.passes)
	}
	p := program.NewCompiler(program.DefaultBudget).Compile(with()) // the loop has its own
	rules, elements := 0, 0
	for _, list := range p.Chains {
		rules += len(list)
	}
	for _, set := range p.Sets {
		elements += len(set.Elements)
	}
	budget := program.DefaultBudget
	if rules > budget.Rules+100 || elements > budget.Elements+len(c.Pods)*2 || len(p.Sets) > budget.Sets+20 {
		t.Errorf("%d rules, %d elements, %d sets: more than %+v", rules, elements, len(p.Sets), budget)
	}
	if len(p.Beyond) == 0 {
		t.Error("no policy is said not to fit")
	}
	if k.total["x"] > defaultBytes {
		t.Errorf("%d bytes are kept of the policies, more than %d", k.total["x"], defaultBytes)
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("%d rules, %d elements, %d sets; %d policies do not fit; heap %d MiB, peak of memory %s", rules, elements, len(p.Sets), len(p.Beyond), m.HeapAlloc>>20, peak(t))
}

// dialog is a UDP socket that asks one address again and again from one port.
type dialog struct{ net.Conn }

func talk(t *testing.T, from *truth.Host, to string) *dialog {
	t.Helper()
	var c net.Conn
	if err := from.Do(func() (err error) {
		c, err = net.Dial("udp", net.JoinHostPort(truth.Address(to, program.IP4).String(), "80"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &dialog{c}
}

func (d *dialog) answered(t *testing.T, wait time.Duration) bool {
	t.Helper()
	if err := d.SetDeadline(time.Now().Add(wait)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Write([]byte("?")); err != nil {
		return false // an earlier packet was refused
	}
	_, err := d.Read(make([]byte, 8))
	return err == nil
}

// becomes waits until it is answered, or is not.
func (d *dialog) becomes(t *testing.T, when string, want bool) {
	t.Helper()
	for limit := time.Now().Add(2 * time.Minute); time.Now().Before(limit); {
		if d.answered(t, 500*time.Millisecond) == want {
			return
		}
	}
	t.Errorf("%s: want an answer: %t", when, want)
}

// TestFlowsOfGonePods: a pod that gets the address of another one does not get its flows, which
// policies forbid it. Flows of pods that stay go on, whatever policies say by then.
func TestFlowsOfGonePods(t *testing.T) {
	f := truth.Lay(t)
	w := &world{}
	e, r := onField(t, f, w, `{"checkInterval": "1s"}`)
	open := "metadata: {name: open}\nspec: {podSelector: {matchLabels: {pod: x}}, ingress: [{from: [{namespaceSelector: {matchLabels: {ns: 'y'}}}]}]}"
	// Of both directions: what serves on in the test is not to begin a flow of its own.
	shut := "metadata: {name: shut}\nspec: {podSelector: {matchLabels: {pod: new}}, policyTypes: [Ingress, Egress]}"
	w.enforced(t, e, r, truth.World(open, shut))
	// On a busy machine more time passes between two packets than a flow is tracked by default.
	if err := f.Node.Do(func() error {
		for _, name := range []string{"nf_conntrack_udp_timeout", "nf_conntrack_udp_timeout_stream"} {
			if err := os.WriteFile("/proc/sys/net/netfilter/"+name, []byte("3600"), 0); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	toX, toY := talk(t, f.Hosts["y/x"], "x/x"), talk(t, f.Hosts["y/x"], "x/y")
	toX.becomes(t, "to x/x", true)
	toY.becomes(t, "to x/y", true)

	// A policy that forbids it leaves what is tracked alone.
	none := "metadata: {name: none}\nspec: {podSelector: {matchLabels: {pod: 'y'}}}"
	w.enforced(t, e, r, truth.World(open, shut, none))
	toY.becomes(t, "to x/y, which is forbidden by now", true)
	if talk(t, f.Hosts["y/x"], "x/y").answered(t, 500*time.Millisecond) {
		t.Error("a new flow passes that is forbidden")
	}

	// Another pod has the address of x/x.
	next := truth.World(open, shut, none)
	for i, p := range next.Pods {
		if p.Namespace == "x" && p.Name == "x" {
			heir := *p
			heir.Name, heir.UID, heir.Labels = "heir", "2", map[string]string{"pod": "new"}
			next.Pods[i] = &heir
		}
	}
	w.enforced(t, e, r, next)
	toX.becomes(t, "to the heir of x/x", false)
	toY.becomes(t, "to x/y, which stays", true)

	// A pod goes, no pod has its address, then another one has it.
	less := truth.World(open, shut, none)
	less.Pods = slices.DeleteFunc(less.Pods, func(p *program.Pod) bool { return p.Namespace == "x" && p.Name == "y" })
	w.enforced(t, e, r, less)
	toY.becomes(t, "to an address that no pod has", false)
	w.enforced(t, e, r, truth.World(open, shut, none))
	if toY.answered(t, 500*time.Millisecond) {
		t.Error("the flow of a pod that went is back")
	}
}
