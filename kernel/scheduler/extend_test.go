package scheduler

import (
	"encoding/json"
	"io"
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
		c.nodes.Add(makeNode([]string{"n0", "n1", "n2"}[i], cpu, map[string]string{"cpus": resource.NewQuantity(cpu, resource.DecimalSI).String()}))
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
	c.addPod(makePod("web", 100))
	c.eventuallyBound(t, "web", "n1")
	if got := lastAsked.Load(); got != "n0,n1" {
		t.Errorf("the second was asked about %v", got)
	}
	d := c.eventuallyTried(t, "web", 1)
	if d.Feasible != 1 || len(d.Outcomes) != 2 || d.Outcomes[0].Plugin != "Extender "+first {
		t.Errorf("%+v", d)
	}
	c.addPod(makePod("nowhere", 1500))
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
	c.addPod(makePod("web", 100))
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
			cluster.addPod(makePod("web", 100, func(p *v1.Pod) {
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
	c.addPod(makePod("web", 100))
	c.eventuallyBound(t, "web", "")
	if got := <-bindings; got.PodName != "web" || got.Node != c.node("web") || got.PodUID != "pod-web" {
		t.Errorf("%+v", got)
	}
	c.addPod(makePod("refused", 100))
	eventually(t, "it is told", func() bool {
		condition, n := c.lastCondition("refused")
		return n > 0 && strings.Contains(condition.Message, "not on my watch")
	})
}

// Victims are evicted only as far as the extender agrees.
func TestExtenderPreempts(t *testing.T) {
	for name, agree := range map[string]bool{"it agrees": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, map[string]func([]byte) any{"preempt": func(body []byte) any {
				var args extenderv1.ExtenderPreemptionArgs
				if json.Unmarshal(body, &args) != nil || !agree {
					return extenderv1.ExtenderPreemptionResult{}
				}
				return extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: args.NodeNameToMetaVictims}
			}})
			e, err := extender.New(extender.Config{URLPrefix: url, PreemptVerb: "preempt", NodeCacheCapable: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(e.Close)
			s := &Scheduler{deps: Deps{Extenders: []Extender{e}}}
			var victims []*podEntry
			for _, name := range []string{"a", "b"} {
				pod := makePod(name, 1)
				victims = append(victims, &podEntry{uid: pod.UID, pod: pod})
			}
			got, err := s.extendersPreempt(t.Context(), makePod("p", 1), "n0", victims)
			if agree && (err != nil || len(got) != 2) || !agree && (err == nil || !strings.Contains(err.Error(), "allows no victims on node n0")) {
				t.Errorf("%v %v", got, err)
			}
		})
	}
}
