package program_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/plugins/networkpolicy/program"
	"pintle.dev/pintle/plugins/networkpolicy/truth"
)

// TestSetsAreShared: peers that select the same addresses are one set, whatever their selectors
// say and whoever wrote them. When one of them selects another pod it is a set of its own.
func TestSetsAreShared(t *testing.T) {
	var texts []string
	for i := range 50 {
		texts = append(texts, fmt.Sprintf("metadata: {name: p%d, namespace: %s}\nspec: {podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {ns: 'y'}}, podSelector: {matchExpressions: [{key: pod, operator: NotIn, values: [none%d]}]}}]}]}", i, []string{"x", "'y'"}[i%2], i))
	}
	c := truth.World(texts...)
	peers := func(p *program.Program) (n int) {
		for name := range p.Sets {
			if strings.HasPrefix(name, "peers-") {
				n++
			}
		}
		return n
	}
	m := program.NewCompiler(program.DefaultBudget)
	p := m.Compile(c)
	if got := peers(p); got != 2 { // one a family
		t.Errorf("%d sets of peers", got)
	}
	agree(t, c, p)
	next := *c
	next.Pods = slices.Clone(c.Pods)
	for i, pod := range next.Pods {
		if pod.Namespace == "y" && pod.Name == "z" {
			other := *pod
			other.Labels = map[string]string{"pod": "none7"}
			next.Pods[i] = &other
		}
	}
	p = m.Compile(&next)
	if got := peers(p); got != 4 {
		t.Errorf("%d sets of peers when one is another", got)
	}
	agree(t, &next, p)
	p = m.Compile(c)
	if got := peers(p); got != 2 {
		t.Errorf("%d sets of peers when it is the same again", got)
	}
}

// TestPodChangesElements: a pod that comes changes elements, and no rule.
func TestPodChangesElements(t *testing.T) {
	c := truth.Large(100, 400, 50)
	m := program.NewCompiler(program.DefaultBudget)
	before := m.Compile(c)
	next := *c
	next.Pods = append(slices.Clone(c.Pods), &program.Pod{Namespace: "ns1", Name: "new", Labels: map[string]string{"app": "a1"}, Addresses: []netip.Addr{netip.MustParseAddr("10.244.200.1")}})
	changes := program.ChangesOf(before, m.Compile(&next))
	if len(changes.Sets) == 0 || len(changes.NewSets)+len(changes.ChangedChains)+len(changes.OldSets) > 0 {
		t.Errorf("%+v", changes)
	}
}

// TestCompilerFollows: a compiler that follows changes of pods, labels, namespaces and policies
// makes the programs that one does which knows nothing, also where budgets are small.
func TestCompilerFollows(t *testing.T) {
	for _, budget := range []program.Budget{program.DefaultBudget, {Rules: 30, Sets: 6, Elements: 40, Selectors: 8}} {
		for seed := range uint64(20) {
			r := truth.Chance{Rand: rand.New(rand.NewPCG(seed, 3))}
			m := program.NewCompiler(budget)
			c := truth.World()
			for i := range 12 {
				c.Policies = append(c.Policies, r.Policy(i))
			}
			for step := range 40 {
				next := *c
				next.Pods, next.Policies, next.Namespaces = slices.Clone(c.Pods), slices.Clone(c.Policies), maps.Clone(c.Namespaces)
				change(&next, r, step)
				c = &next
				got, want := m.Compile(c), program.NewCompiler(budget).Compile(c)
				if changes := program.ChangesOf(want, got); !changes.None() {
					t.Fatalf("seed %d, step %d: %+v", seed, step, changes)
				}
				if !slices.Equal(got.Beyond, want.Beyond) {
					t.Fatalf("seed %d, step %d: beyond %v, want %v", seed, step, got.Beyond, want.Beyond)
				}
			}
		}
	}
}

// change does one thing to a cluster.
func change(c *program.Cluster, r truth.Chance, step int) {
	at := r.IntN(len(c.Pods))
	pod := *c.Pods[at]
	switch r.IntN(7) {
	case 0:
		pod.Labels = map[string]string{"pod": r.One("x", "y", "z")}
		c.Pods[at] = &pod
	case 1:
		ns := r.One("x", "y", "z")
		c.Namespaces[ns] = map[string]string{"ns": r.One("x", "y", "z")}
	case 2:
		c.Policies[r.IntN(len(c.Policies))] = r.Policy(100 + step)
	case 3:
		if len(c.Pods) > 4 {
			c.Pods = slices.Delete(c.Pods, at, at+1)
		}
	case 4: // another pod claims the address
		pod.Name, pod.Created = fmt.Sprint("heir", step), time.Unix(int64(r.IntN(3)), 0)
		c.Pods = append(c.Pods, &pod)
	case 5:
		pod.Ports = append(slices.Clone(pod.Ports), program.Port{Name: r.One("serve", "wire", "absent"), Protocol: program.TCP, Number: uint16(80 + r.IntN(3))})
		c.Pods[at] = &pod
	case 6:
		pod.Local = !pod.Local
		c.Pods[at] = &pod
	}
}

// size counts what a program has, but for base chains.
func size(p *program.Program) (rules, elements int) {
	for name, list := range p.Chains {
		if name != program.Egress && name != program.Ingress {
			rules += len(list)
		}
	}
	for name, set := range p.Sets {
		if strings.HasPrefix(name, "peers-") || strings.HasPrefix(name, "blocks-") || strings.HasPrefix(name, "sockets-") {
			elements += len(set.Elements)
		}
	}
	return rules, elements
}

// TestBudgets: whatever policies of a namespace ask for, what they take is bounded. Those that
// do not fit isolate their pods in their directions and let nobody pass; those that fit, and
// those of other namespaces, count as always.
func TestBudgets(t *testing.T) {
	small := program.Budget{Rules: 60, Sets: 12, Elements: 60, Selectors: 20}
	many := func(n int, spec func(i int) string) (texts []string) {
		for i := range n {
			texts = append(texts, fmt.Sprintf("metadata: {name: p%04d}\nspec: {podSelector: {matchLabels: {pod: x}}, %s}", i, spec(i)))
		}
		return texts
	}
	long := func(n int, one func(i int) string) string {
		var list []string
		for i := range n {
			list = append(list, one(i))
		}
		return strings.Join(list, ",")
	}
	block := func(i int) string {
		return fmt.Sprintf("{ipBlock: {cidr: 172.%d.0.0/16, except: [172.%d.7.0/24]}}", i%250, i%250)
	}
	for name, tc := range map[string]struct {
		limit program.Limit
		texts []string
	}{
		"many selectors": {program.Selectors, many(200, func(i int) string {
			return fmt.Sprintf("ingress: [{from: [{namespaceSelector: {}, podSelector: {matchLabels: {a%d: b}}}]}]", i)
		})},
		"many selectors in one": {program.Selectors, many(1, func(int) string {
			return "ingress: [{from: [" + long(500, func(i int) string { return fmt.Sprintf("{podSelector: {matchLabels: {a%d: b}}}", i) }) + "]}]"
		})},
		"many ports": {program.Rules, many(1, func(int) string {
			return "ingress: [{ports: [" + long(500, func(i int) string { return fmt.Sprintf("{port: %d}", 1000+2*i) }) + "]}]"
		})},
		"many names": {program.Selectors, many(100, func(i int) string {
			return fmt.Sprintf("policyTypes: [Ingress], ingress: [{ports: [{port: name%d}]}]", i)
		})},
		"many rules": {program.Rules, many(200, func(i int) string {
			return fmt.Sprintf("ingress: [{ports: [{port: %d}]}]", 1000+i)
		})},
		"many ranges": {program.Elements, many(1, func(int) string { return "ingress: [{from: [" + long(200, block) + "]}]" })},
		"many sets of ranges": {program.Sets, many(100, func(i int) string {
			return "ingress: [{from: [" + block(i) + "]}]"
		})},
	} {
		own := "metadata: {namespace: 'y', name: own}\nspec: {podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}"
		c := truth.World(append(tc.texts, own)...)
		p := program.NewCompiler(small).Compile(c)
		rules, elements := size(p)
		alone, of := size(program.NewCompiler(small).Compile(truth.World(own)))
		if rules-alone > small.Rules+1 || elements-of > small.Elements {
			t.Errorf("%s: %d rules and %d elements, beside %d and %d of others", name, rules, elements, alone, of)
		}
		if len(p.Beyond) == 0 || p.Beyond[0].Limit != tc.limit || p.Beyond[0].Policy.Namespace != "x" {
			t.Errorf("%s: beyond %v", name, p.Beyond)
		}
		for text, want := range map[string]bool{
			"192.0.2.1 x/x TCP 80": false, "x/x 192.0.2.1 TCP 80": true, "y/x x/y TCP 80": true, "x/x x/x TCP 80": true,
			"y/y y/x TCP 80": true, "x/y y/x TCP 80": false,
		} {
			if got := truth.Passes(t, p, ask(t, text, program.IP4)); got != want {
				t.Errorf("%s: %s passes: %t", name, text, got)
			}
		}
	}
}

// TestFirstComesFirst: a policy that is made later does not take the place of an earlier one,
// whatever its name.
func TestFirstComesFirst(t *testing.T) {
	small := program.Budget{Rules: 10, Sets: 10, Elements: 10, Selectors: 10}
	old := truth.Policy("metadata: {name: z}\nspec: {podSelector: {}, ingress: [{ports: [{port: 80}]}]}")
	late := truth.Policy("metadata: {name: a}\nspec: {podSelector: {}, ingress: [{ports: [{port: 1},{port: 3},{port: 5},{port: 7},{port: 9},{port: 11},{port: 13}]}]}")
	old.CreationTimestamp, late.CreationTimestamp = metav1.Unix(1, 0), metav1.Unix(2, 0)
	c := truth.World()
	c.Policies = []*networkingv1.NetworkPolicy{late, old}
	p := program.NewCompiler(small).Compile(c)
	if len(p.Beyond) != 1 || p.Beyond[0].Policy != late || p.Beyond[0].Limit != program.Rules {
		t.Errorf("beyond: %v", p.Beyond)
	}
	if !truth.Passes(t, p, ask(t, "y/x x/x TCP 80", program.IP4)) || truth.Passes(t, p, ask(t, "y/x x/x TCP 3", program.IP4)) {
		t.Error("what the earlier policy allows does not pass, or what the later one does")
	}
	// One of which nothing was kept isolates in the directions that it names.
	late.Annotations = map[string]string{program.NotKept: "true"}
	late.Spec = networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}}
	c.Policies = []*networkingv1.NetworkPolicy{late}
	p = program.NewCompiler(small).Compile(c)
	if len(p.Beyond) != 1 || p.Beyond[0].Limit != program.Memory || truth.Passes(t, p, ask(t, "x/x y/x TCP 80", program.IP4)) || !truth.Passes(t, p, ask(t, "y/x x/x TCP 80", program.IP4)) {
		t.Errorf("of a policy that was not kept: %v", p.Beyond)
	}
}

// TestManyExceptions: an ipBlock of fifty thousand exceptions is no work of hours.
func TestManyExceptions(t *testing.T) {
	p := truth.Policy("spec: {podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8}}]}]}")
	for i := range 50_000 {
		p.Spec.Ingress[0].From[0].IPBlock.Except = append(p.Spec.Ingress[0].From[0].IPBlock.Except, fmt.Sprintf("10.%d.%d.1/32", i>>8, i&255))
	}
	c := truth.World()
	c.Policies = append(c.Policies, p)
	out := program.Compile(c)
	if len(out.Beyond) > 0 {
		t.Errorf("beyond: %v", out.Beyond[0].Limit)
	}
	for text, want := range map[string]bool{"10.7.7.1 x/x TCP 80": false, "10.7.7.2 x/x TCP 80": true, "10.255.255.255 x/x TCP 80": true, "11.0.0.0 x/x TCP 80": false} {
		if got := truth.Passes(t, out, ask(t, text, program.IP4)); got != want {
			t.Errorf("%s passes: %t", text, got)
		}
	}
}

// BenchmarkFollow: a pod changes beside a thousand policies.
func BenchmarkFollow(b *testing.B) {
	c := truth.Large(1000, 1000, 100)
	m := program.NewCompiler(program.DefaultBudget)
	m.Compile(c)
	for i := 0; b.Loop(); i++ {
		next := *c
		next.Pods = slices.Clone(c.Pods)
		pod := *c.Pods[7]
		pod.Labels = map[string]string{"app": fmt.Sprint("a", i%20)}
		next.Pods[7] = &pod
		c = &next
		m.Compile(c)
	}
}
