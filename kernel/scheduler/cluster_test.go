package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"go.uber.org/goleak"

	"pintle.dev/pintle/kernel/scheduler/explain"
	"pintle.dev/pintle/kernel/scheduler/schedulertest"
	"pintle.dev/pintle/sdk"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func priority(n int32) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.Priority = &n } }

// api stands in for the API server: sources that are watched and a binding
// subresource with the server's rules.
type api struct {
	t       testing.TB
	pods    *fcache.FakeControllerSource
	nodes   *fcache.FakeControllerSource
	claims  *fcache.FakeControllerSource
	service *fcache.FakeControllerSource

	mu              sync.Mutex
	byUID           map[types.UID]*v1.Pod
	order           []string           // pods in the order they were bound
	refuse          func(string) error // for each binding of a pod, by name
	refuseCondition func() error
	silent          bool               // bindings succeed and are not seen
	twice           []string           // pods bound twice
	taken           map[types.UID]bool // pods that another scheduler bound
	conditions      map[string][]v1.PodCondition
	events          []string
	evict           Evicter
	nominate        func(ctx context.Context, pod *v1.Pod, node string) error
}

func newAPI(t testing.TB) *api {
	a := &api{
		t: t, pods: fcache.NewFakeControllerSource(), nodes: fcache.NewFakeControllerSource(),
		claims: fcache.NewFakeControllerSource(), service: fcache.NewFakeControllerSource(),
		byUID: map[types.UID]*v1.Pod{}, taken: map[types.UID]bool{}, conditions: map[string][]v1.PodCondition{},
	}
	t.Cleanup(func() {
		for _, s := range []*fcache.FakeControllerSource{a.pods, a.nodes, a.claims, a.service} {
			s.Shutdown()
		}
	})
	return a
}

func (a *api) addPod(pods ...*v1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range pods {
		a.byUID[p.UID] = p
		a.pods.Add(p)
	}
}

func (a *api) changePod(name string, change func(*v1.Pod)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.byUID[types.UID("pod-"+name)].DeepCopy()
	before := p.Spec.NodeName
	if change(p); before == "" && p.Spec.NodeName != "" {
		a.taken[p.UID] = true
	}
	a.byUID[p.UID] = p
	a.pods.Modify(p)
}

func (a *api) deletePod(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.byUID[types.UID("pod-"+name)]
	delete(a.byUID, p.UID)
	a.pods.Delete(p.DeepCopy())
}

func (a *api) bind(_ context.Context, b *v1.Binding) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refuse != nil {
		if err := a.refuse(b.Name); err != nil {
			return err
		}
	}
	old := a.byUID[b.UID]
	if old == nil {
		return errors.New("not found")
	}
	if old.Spec.NodeName != "" {
		if !a.taken[b.UID] {
			a.twice = append(a.twice, b.Name)
		}
		return errors.New("already assigned")
	}
	p := old.DeepCopy()
	p.Spec.NodeName = b.Target.Name
	for k, v := range b.Annotations {
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations[k] = v
	}
	a.order = append(a.order, b.Name)
	if a.silent {
		return nil
	}
	a.byUID[p.UID] = p
	a.pods.Modify(p)
	return nil
}

func (a *api) node(name string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.byUID[types.UID("pod-"+name)]; p != nil {
		return p.Spec.NodeName
	}
	return ""
}

func (a *api) annotation(name, key string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.byUID[types.UID("pod-"+name)].Annotations[key]
}

func (a *api) bound() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.order...)
}

func (a *api) status(ctx context.Context, pod *v1.Pod, c *v1.PodCondition, nominated *string) error {
	var failures []error
	if c != nil {
		failures = append(failures, a.condition(pod, c))
	}
	if nominated != nil && a.nominate != nil {
		failures = append(failures, a.nominate(ctx, pod, *nominated))
	}
	return errors.Join(failures...)
}

func (a *api) condition(pod *v1.Pod, c *v1.PodCondition) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refuseCondition != nil {
		if err := a.refuseCondition(); err != nil {
			return err
		}
	}
	a.conditions[pod.Name] = append(a.conditions[pod.Name], *c)
	return nil
}

func (a *api) lastCondition(name string) (v1.PodCondition, int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := a.conditions[name]
	if len(list) == 0 {
		return v1.PodCondition{}, 0
	}
	return list[len(list)-1], len(list)
}

func (a *api) Eventf(regarding, _ runtime.Object, eventtype, reason, action, note string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, fmt.Sprintf("%s %s %s %s: ", regarding.(*v1.Pod).Name, eventtype, reason, action)+fmt.Sprintf(note, args...))
}

func (a *api) hasEvent(want string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.events {
		if e == want {
			return true
		}
	}
	return false
}

// cluster is a running scheduler over an api, with a clock that a test steps.
type cluster struct {
	*api
	sched  *Scheduler
	clock  *clocktesting.FakeClock
	policy *schedulertest.GuestPolicy
	source *testSource
	counts *Metrics
	beside []Extender
	busy   func(bool)
	stop   func()
	// profiles are those beside the first one.
	profiles map[string]PolicySource
}

func (c *cluster) deps() Deps {
	profiles := map[string]PolicySource{schedulertest.ProfileName: c.source}
	maps.Copy(profiles, c.profiles)
	return Deps{
		Pods: c.pods, Nodes: c.nodes,
		Objects:  map[string]cache.ListerWatcher{"PersistentVolumeClaim": c.claims, "Service": c.service},
		Profiles: profiles,
		Bind:     c.bind, Status: c.status, Events: c.api, Evict: c.evict,
		Log: slog.New(slog.DiscardHandler), Clock: c.clock, Metrics: c.counts, Extenders: c.beside, Busy: c.busy,
	}
}

// start runs a scheduler until the test ends.
func start(t *testing.T, cfg Config, prepare ...func(*cluster)) *cluster {
	t.Helper()
	c := &cluster{api: newAPI(t), clock: clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))}
	c.policy = schedulertest.NewGuestPolicy(t, func() *contractv1.Delta { return c.sched.Replica() },
		[]sdk.Predicate{schedulertest.FitCPU, schedulertest.SelectNode, schedulertest.ZoneVolume, schedulertest.PerZone}, []sdk.Priority{schedulertest.LeastCPU})
	c.source = newTestSource(c.policy)
	for _, f := range prepare {
		f(c)
	}
	s, err := New(cfg, c.deps())
	if err != nil {
		t.Fatal(err)
	}
	c.sched = s
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	c.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.twice) > 0 {
			t.Errorf("bound twice: %v", c.twice)
		}
	})
	t.Cleanup(c.stop)
	return c
}

// addNodes adds nodes and waits until the scheduler knows them. Pods come by another
// way: one that is added next may else be tried before its nodes are there.
func (c *cluster) addNodes(t *testing.T, nodes ...*v1.Node) {
	t.Helper()
	for _, n := range nodes {
		c.nodes.Add(n)
	}
	for _, n := range nodes {
		eventually(t, n.Name+" is seen", func() (seen bool) {
			c.ask(t, func() { e := c.sched.snapshot.ByName[n.Name]; seen = e != nil && e.Object != nil })
			return seen
		})
	}
}

// eventually polls until a condition holds, for at most two minutes.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (c *cluster) eventuallyBound(t *testing.T, pod, node string) {
	t.Helper()
	polls := 0
	eventually(t, pod+" on "+node, func() bool {
		// It may have been tried before its node was seen, and waits.
		if polls++; polls%500 == 0 {
			c.clock.Step(time.Second)
		}
		got := c.node(pod)
		return got != "" && (node == "" || got == node)
	})
}

// eventuallyTried waits until the attempt'th attempt at a pod was decided.
func (c *cluster) eventuallyTried(t *testing.T, pod string, attempt int) explain.Decision {
	t.Helper()
	var d explain.Decision
	polls := 0
	eventually(t, fmt.Sprintf("attempt %d at %s", attempt, pod), func() bool {
		// What brings it back may have come before its back-off was over.
		if polls++; attempt > 1 && polls%500 == 0 {
			c.clock.Step(time.Second)
		}
		var ok bool
		d, ok = c.sched.Explain("a", pod)
		return ok && d.Attempt >= attempt
	})
	return d
}
