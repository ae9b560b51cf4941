package scheduler

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"pintle.dev/pintle/kernel/extender"
	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/kernel/scheduler/schedulertest"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// serve runs an HTTP extender whose verbs are functions of what it is asked.
func serve(t *testing.T, verbs map[string]func(body []byte) any) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		verb := verbs[strings.TrimPrefix(r.URL.Path, "/")]
		if err != nil || verb == nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		if answer := verb(body); answer != nil {
			_ = json.NewEncoder(w).Encode(answer)
			return
		}
		<-r.Context().Done() // it hangs
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func asked(body []byte) *extenderv1.ExtenderArgs {
	args := &extenderv1.ExtenderArgs{}
	if json.Unmarshal(body, args) != nil {
		return nil
	}
	return args
}

// startExtended starts a scheduler with extenders over three nodes.
func startExtended(t *testing.T, configs ...extender.Config) *cluster {
	t.Helper()
	c := start(t, Config{}, func(c *cluster) {
		for _, cfg := range configs {
			e, err := extender.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(e.Close)
			c.beside = append(c.beside, e)
		}
	})
	for i, cpu := range []int64{1000, 2000, 4000} {
		c.addNodes(t, schedulertest.MakeNode([]string{"n0", "n1", "n2"}[i], cpu, map[string]string{"cpus": resource.NewQuantity(cpu, resource.DecimalSI).String()}))
	}
	return c
}

// Each filters what the one before left; what they say is told with what predicates
// say.
func TestExtendersFilter(t *testing.T) {
	leave := func(keep func(string) bool, reason string) func([]byte) any {
		return func(body []byte) any {
			names := []string{}
			refused := extenderv1.FailedNodesMap{}
			for _, name := range *asked(body).NodeNames {
				if keep(name) {
					names = append(names, name)
				} else {
					refused[name] = reason
				}
			}
			return extenderv1.ExtenderFilterResult{NodeNames: &names, FailedNodes: refused}
		}
	}
	var lastAsked atomic.Value
	first := serve(t, map[string]func([]byte) any{"filter": leave(func(name string) bool { return name != "n2" }, "n2 is mine")})
	second := serve(t, map[string]func([]byte) any{"filter": func(body []byte) any {
		lastAsked.Store(strings.Join(slices.Sorted(slices.Values(*asked(body).NodeNames)), ","))
		if asked(body).Pod.Name == "nowhere" {
			return leave(func(string) bool { return false }, "not this pod")(body)
		}
		return leave(func(name string) bool { return name == "n1" }, "not that one")(body)
	}})
	c := startExtended(t, extender.Config{URLPrefix: first, FilterVerb: "filter", NodeCacheCapable: true}, extender.Config{URLPrefix: second, FilterVerb: "filter", NodeCacheCapable: true})
	c.addPod(schedulertest.MakePod("web", 100))
	c.eventuallyBound(t, "web", "n1")
	if got := lastAsked.Load(); got != "n0,n1" {
		t.Errorf("the second was asked about %v", got)
	}
	d := c.eventuallyTried(t, "web", 1)
	if d.Feasible != 1 || len(d.Outcomes) != 2 || d.Outcomes[0].Plugin != "Extender "+first {
		t.Errorf("%+v", d)
	}
	c.addPod(schedulertest.MakePod("nowhere", 1500))
	d = c.eventuallyTried(t, "nowhere", 1)
	if want := "0/3 nodes are available: 1 Insufficient cpu, 1 n2 is mine, 1 not this pod."; d.Message != want {
		t.Errorf("%q, want %q", d.Message, want)
	}
	// Whatever happens may help it.
	c.clock.Step(time.Minute)
	c.changePod("web", func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} })
	c.eventuallyTried(t, "nowhere", 2)
}

// Whole nodes go to those that do not keep them, and scores are added with their
// weights: 10 of an extender is the most a plugin gives.
func TestExtendersPrioritize(t *testing.T) {
	whole := serve(t, map[string]func([]byte) any{"prioritize": func(body []byte) any {
		var list extenderv1.HostPriorityList
		for _, n := range asked(body).Nodes.Items {
			score := int64(0)
			if n.Labels["cpus"] == "1k" && n.Status.Allocatable.Cpu().MilliValue() == 1000 {
				score = 10
			}
			list = append(list, extenderv1.HostPriority{Host: n.Name, Score: score})
		}
		return list
	}})
	failing := serve(t, nil)
	c := startExtended(t, extender.Config{URLPrefix: whole, PrioritizeVerb: "prioritize", Weight: 100},
		extender.Config{URLPrefix: failing, PrioritizeVerb: "prioritize", Weight: 1})
	c.addPod(schedulertest.MakePod("web", 100))
	c.eventuallyBound(t, "web", "n0")
	if d := c.eventuallyTried(t, "web", 1); d.Total < 1000 {
		t.Errorf("total %d, want the 1,000 of the extender in it", d.Total)
	}
}

// One that fails or hangs holds pods up, unless it is ignorable; pods that it does
// not manage pass it by.
func TestExtendersFail(t *testing.T) {
	failing := serve(t, nil)
	hanging := serve(t, map[string]func([]byte) any{"filter": func([]byte) any { return nil }})
	for name, c := range map[string]struct {
		cfg   extender.Config
		gpu   bool
		bound bool
	}{
		"it fails":                  {cfg: extender.Config{URLPrefix: failing}},
		"it fails, ignorable":       {cfg: extender.Config{URLPrefix: failing, Ignorable: true}, bound: true},
		"it hangs":                  {cfg: extender.Config{URLPrefix: hanging, Timeout: 10 * time.Millisecond}},
		"it hangs, ignorable":       {cfg: extender.Config{URLPrefix: hanging, Timeout: 10 * time.Millisecond, Ignorable: true}, bound: true},
		"not its pod":               {cfg: extender.Config{URLPrefix: failing, ManagedResources: []string{"example.com/gpu"}}, bound: true},
		"its pod":                   {cfg: extender.Config{URLPrefix: failing, ManagedResources: []string{"example.com/gpu"}}, gpu: true},
		"nobody listens":            {cfg: extender.Config{URLPrefix: "http://127.0.0.1:1"}},
		"nobody listens, ignorable": {cfg: extender.Config{URLPrefix: "http://127.0.0.1:1", Ignorable: true}, bound: true},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.FilterVerb, c.cfg.NodeCacheCapable = "filter", true
			cluster := startExtended(t, c.cfg)
			cluster.addPod(schedulertest.MakePod("web", 100, func(p *v1.Pod) {
				if c.gpu {
					p.Spec.Containers[0].Resources.Limits = v1.ResourceList{"example.com/gpu": resource.MustParse("0")}
				}
			}))
			if c.bound {
				cluster.eventuallyBound(t, "web", "")
				return
			}
			cluster.eventuallyTried(t, "web", 1)
			eventually(t, "it is told", func() bool {
				condition, n := cluster.lastCondition("web")
				return n > 0 && condition.Reason == v1.PodReasonSchedulerError
			})
			if cluster.node("web") != "" {
				t.Error("it was bound")
			}
		})
	}
}

// An extender with a bind verb binds, and what it answers is told.
func TestExtenderBinds(t *testing.T) {
	var c *cluster
	bindings := make(chan extenderv1.ExtenderBindingArgs, 8)
	url := serve(t, map[string]func([]byte) any{"bind": func(body []byte) any {
		var args extenderv1.ExtenderBindingArgs
		if err := json.Unmarshal(body, &args); err != nil {
			return extenderv1.ExtenderBindingResult{Error: err.Error()}
		}
		bindings <- args
		if args.PodName == "refused" {
			return extenderv1.ExtenderBindingResult{Error: "not on my watch"}
		}
		b := &v1.Binding{Target: v1.ObjectReference{Name: args.Node}}
		b.Namespace, b.Name, b.UID = args.PodNamespace, args.PodName, args.PodUID
		if err := c.bind(t.Context(), b); err != nil {
			return extenderv1.ExtenderBindingResult{Error: err.Error()}
		}
		return extenderv1.ExtenderBindingResult{}
	}})
	c = startExtended(t, extender.Config{URLPrefix: url, BindVerb: "bind"})
	c.addPod(schedulertest.MakePod("web", 100))
	c.eventuallyBound(t, "web", "")
	if got := <-bindings; got.PodName != "web" || got.Node != c.node("web") || got.PodUID != "pod-web" {
		t.Errorf("%+v", got)
	}
	c.addPod(schedulertest.MakePod("refused", 100))
	eventually(t, "it is told", func() bool {
		condition, n := c.lastCondition("refused")
		return n > 0 && strings.Contains(condition.Message, "not on my watch")
	})
}

// An extender is asked about all candidates at once with their victims, each is asked
// what the one before left, and the plugin chooses among the rest.
func TestExtendersPreempt(t *testing.T) {
	told := make(chan extenderv1.ExtenderPreemptionArgs, 64)
	preempts := func(change func(map[string]*extenderv1.MetaVictims)) map[string]func([]byte) any {
		return map[string]func([]byte) any{"preempt": func(body []byte) any {
			var args extenderv1.ExtenderPreemptionArgs
			if err := json.Unmarshal(body, &args); err != nil {
				return nil
			}
			asked := args
			asked.NodeNameToMetaVictims = maps.Clone(args.NodeNameToMetaVictims)
			told <- asked
			change(args.NodeNameToMetaVictims)
			return extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: args.NodeNameToMetaVictims}
		}}
	}
	all := func(map[string]*extenderv1.MetaVictims) {}
	for name, c := range map[string]struct {
		first, second func(map[string]*extenderv1.MetaVictims)
		ignorable     bool
		victim        string // that is evicted
		words         string // of the condition
	}{
		"both leave all":        {first: all, second: all, victim: "low0"},
		"the second leaves one": {first: all, second: func(m map[string]*extenderv1.MetaVictims) { delete(m, "n0"); delete(m, "n1") }, victim: "low2"},
		"each leaves another": {first: func(m map[string]*extenderv1.MetaVictims) { delete(m, "n0") },
			second: func(m map[string]*extenderv1.MetaVictims) { delete(m, "n1") }, victim: "low2"},
		"none is left":           {first: clearVictims, second: all, words: " preemption: no candidate node for preemption"},
		"more violations":        {first: func(m map[string]*extenderv1.MetaVictims) { m["n0"].NumPDBViolations = 1 }, second: all, victim: "low1"},
		"a node without victims": {first: func(m map[string]*extenderv1.MetaVictims) { m["n0"].Pods = nil }, second: all, words: ` preemption: expected at least one victim pod on node "n0"`},
		"a node without victims, ignorable": {first: func(m map[string]*extenderv1.MetaVictims) { m["n0"].Pods = nil }, second: all, ignorable: true,
			victim: "low1"},
		"a pod that is not there": {first: func(m map[string]*extenderv1.MetaVictims) { m["n0"].Pods[0].UID = "x" }, second: all,
			words: " claims to preempt pod (UID: &{x}) on node: n0, but the pod is not found on that node"},
		"a pod that is not there, ignorable": {first: func(m map[string]*extenderv1.MetaVictims) { m["n0"].Pods[0].UID = "x" }, second: all, ignorable: true, victim: "low0"},
		"a node that is not there":           {first: func(m map[string]*extenderv1.MetaVictims) { m["gone"] = m["n0"] }, second: all, words: ` preemption: nodeinfo not found for node name "gone"`},
	} {
		t.Run(name, func(t *testing.T) {
			for len(told) > 0 {
				<-told
			}
			var extenders []extender.Config
			for _, change := range []func(map[string]*extenderv1.MetaVictims){c.first, c.second} {
				extenders = append(extenders, extender.Config{URLPrefix: serve(t, preempts(change)), PreemptVerb: "preempt", NodeCacheCapable: true, Ignorable: c.ignorable})
			}
			var j journal
			var asked atomic.Int64
			cluster, _ := startCycle(t, 3, []any{trier(&asked)}, evicting(&j), func(c *cluster) {
				for _, cfg := range extenders {
					e, err := extender.New(cfg)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(e.Close)
					c.beside = append(c.beside, e)
				}
				for _, n := range []string{"0", "1", "2"} {
					c.addPod(schedulertest.MakePod("low"+n, 4000, priority(1), on("n"+n)))
				}
			})
			cluster.addPod(schedulertest.MakePod("high", 1000, priority(10)))
			if c.victim == "" {
				d := cluster.eventuallyTried(t, "high", 1)
				if !strings.HasPrefix(d.Message, "0/3 nodes are available: 3 Insufficient cpu. preemption: ") || !strings.HasSuffix(d.Message, c.words) || strings.Contains(j.all(), "evict") {
					t.Errorf("%q, %q", d.Message, j.all())
				}
				return
			}
			cluster.eventuallyBound(t, "high", "")
			if got := j.all(); strings.Count(got, "evict") != 1 || !strings.Contains(got, "evict "+c.victim) {
				t.Errorf("did %q, want that %s goes", got, c.victim)
			}
			if args := <-told; len(args.NodeNameToMetaVictims) != 3 || args.Pod.Name != "high" || len(args.NodeNameToMetaVictims["n2"].Pods) != 1 {
				t.Errorf("the first was asked about %v", args.NodeNameToMetaVictims)
			}
		})
	}
}

func clearVictims(m map[string]*extenderv1.MetaVictims) { clear(m) }

// Explanations of decisions and evaluations tell what extenders said of each node.
func TestExtendersAreExplained(t *testing.T) {
	url := serve(t, map[string]func([]byte) any{
		"filter": func(body []byte) any {
			return extenderv1.ExtenderFilterResult{NodeNames: &[]string{"n1", "n2"}, FailedNodes: extenderv1.FailedNodesMap{"n0": "n0 is mine"}}
		},
		"prioritize": func([]byte) any {
			return extenderv1.HostPriorityList{{Host: "n1", Score: 10}, {Host: "n2", Score: 1}}
		},
	})
	c := startExtended(t, extender.Config{URLPrefix: url, FilterVerb: "filter", PrioritizeVerb: "prioritize", Weight: 50, NodeCacheCapable: true})
	c.addPod(schedulertest.MakePod("web", 100))
	c.eventuallyBound(t, "web", "n1")
	for name, o := range map[string]explain.Options{"decision": {Nodes: 3}, "evaluation": {Nodes: 3, Now: true}} {
		x, err := c.sched.Why(t.Context(), "a", "web", o)
		if err != nil {
			t.Fatal(err)
		}
		if x.Source != name {
			t.Errorf("%s: source %s", name, x.Source)
		}
		title := "Extender " + url
		kinds := map[string]explain.PluginAccount{}
		for _, p := range x.Plugins {
			if p.Name == title {
				kinds[p.Kind] = p
			}
		}
		if kinds["predicate"].Refused != 1 || kinds["priority"].Weight != 1 {
			t.Errorf("%s: %+v", name, x.Plugins)
		}
		if x.Feasible != 2 || len(x.Details) != 3 {
			t.Fatalf("%s: %d fit of %+v", name, x.Feasible, x.Details)
		}
		for _, n := range x.Details {
			last := n.Verdicts[len(n.Verdicts)-1]
			if refused := n.Node == "n0"; last.Predicate != title || n.Fits == refused || refused && (last.Answer != explain.AnswerRefuses || last.Reasons[0] != "n0 is mine") {
				t.Errorf("%s: node %s: %+v", name, n.Node, n)
			}
			if n.Node == "n1" {
				score := n.Scores[len(n.Scores)-1]
				if score.Priority != title || score.Weighted != 500 || n.Total < 500 || !n.Chosen {
					t.Errorf("%s: node n1: %+v", name, n)
				}
			}
		}
	}
}

// A simulation asks extenders as a scheduler that runs.
func TestSimulateWithExtenders(t *testing.T) {
	url := serve(t, map[string]func([]byte) any{"filter": func(body []byte) any {
		names := []string{}
		for _, n := range asked(body).Nodes.Items {
			if n.Labels["free"] == "yes" {
				names = append(names, n.Name)
			}
		}
		var left v1.NodeList
		for _, n := range names {
			left.Items = append(left.Items, *schedulertest.MakeNode(n, 1, nil))
		}
		return extenderv1.ExtenderFilterResult{Nodes: &left}
	}})
	e, err := extender.New(extender.Config{URLPrefix: url, FilterVerb: "filter"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	cluster := &Cluster{Extenders: []Extender{e}}
	for _, name := range []string{"a", "b", "c"} {
		n := schedulertest.MakeNode(name, 4000, nil)
		if name == "b" {
			n.Labels = map[string]string{"free": "yes"}
		}
		cluster.Nodes = append(cluster.Nodes, n)
	}
	var replica ReplicaSource
	policy := newCyclePolicy(t, func() *contractv1.Delta { return replica.Replica() })
	source := newTestSource(policy.GuestPolicy)
	source.cycle.Store(policy)
	out, err := Simulate(bounded(t), cluster, []*v1.Pod{schedulertest.MakePod("p", 100)}, map[string]PolicySource{schedulertest.ProfileName: source},
		func(r ReplicaSource) { replica = r }, 1, nil, explain.Options{Nodes: 10})
	if err != nil {
		t.Fatal(err)
	}
	if out[0].Node != "b" || out[0].Feasible != 1 || !slices.ContainsFunc(out[0].Plugins, func(p explain.PluginAccount) bool { return p.Name == "Extender "+url && p.Refused == 2 }) {
		t.Errorf("%+v", out[0])
	}
}
