package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/tools/cache"

	"pintle.dev/pintle/e2e/bench/rig"
)

// requestDuration is the metric of the API server by which renewals are timed.
const requestDuration = "apiserver_request_duration_seconds"

// grace is after how long a node without a heartbeat is lost: with Leases of 40 seconds the
// 50 of upstream.
func (o options) grace() time.Duration { return o.lease * 5 / 4 }

// grace sets it in the bundle of the controllers.
func grace(bundles []map[string]any, period time.Duration) error {
	i := slices.IndexFunc(bundles, func(b map[string]any) bool { return b["name"] == "controllers" })
	if i < 0 {
		return errors.New("standalone.yaml has no bundle controllers")
	}
	config, _ := bundles[i]["config"].(map[string]any)
	if config == nil {
		config = map[string]any{}
	}
	config["nodelifecycle"] = map[string]any{"nodeMonitorGracePeriod": period.String()}
	bundles[i]["config"] = config
	return nil
}

// crowd follows the nodes: which are Ready, and which were not after they had been. It
// keeps nothing else of them.
type crowd struct {
	mu    sync.Mutex
	ready map[string]bool
	lost  map[string]string // by name, what the Ready condition said
}

// see takes a node in.
func (c *crowd) see(n *corev1.Node) {
	now := isReady(n)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !now && c.ready[n.Name] {
		i := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady })
		why := "it has no such condition"
		if i >= 0 {
			why = n.Status.Conditions[i].Message
		}
		c.lost[n.Name] = why
	}
	c.ready[n.Name] = now
}

// counts are how many are Ready, and how many ever were not afterwards, with one reason.
func (c *crowd) counts() (ready, lost int, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, is := range c.ready {
		if is {
			ready++
		}
	}
	for name, said := range c.lost {
		why = name + ": " + said
	}
	return ready, len(c.lost), why
}

// followNodes watches nodes until ctx ends. The function that it returns waits for the end.
func followNodes(ctx context.Context, s *side) (*crowd, func(), error) {
	c := &crowd{ready: map[string]bool{}, lost: map[string]string{}}
	lw := cache.NewListWatchFromClient(s.client.CoreV1().RESTClient(), "nodes", metav1.NamespaceAll, fields.Everything())
	informer := cache.NewSharedIndexInformerWithOptions(lw, &corev1.Node{}, cache.SharedIndexInformerOptions{})
	err := informer.SetTransform(func(o any) (any, error) {
		n, ok := o.(*corev1.Node)
		if !ok {
			return o, nil
		}
		c.see(n)
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion}}, nil
	})
	var done sync.WaitGroup
	if err == nil {
		done.Go(func() { informer.RunWithContext(ctx) })
	}
	return c, done.Wait, err
}

// measureHeartbeat has hollow nodes of a process of their own register and beat, and counts
// those that the control plane takes for dead.
func measureHeartbeat(ctx context.Context, o options, s *side, out *outcome) error {
	ctx, cancel := context.WithCancelCause(ctx)
	c, wait, err := followNodes(ctx, s)
	defer func() { cancel(nil); wait() }()
	if err != nil {
		return err
	}
	step("%d hollow nodes", o.beating)
	begin := time.Now()
	s.hollow, err = rig.StartProgram(ctx, "pintle", s.dir, func(context.Context) error { return nil },
		"hollow", "--nodes", strconv.Itoa(o.beating), "--kubeconfig", s.kubeconfig, "--node-lease-duration", o.lease.String())
	if err != nil {
		return err
	}
	var shown time.Time
	if err := until(ctx, func() error {
		if err := s.hollow.Ended(); err != nil {
			cancel(err)
			return err
		}
		ready, lost, why := c.counts()
		if time.Since(shown) > 10*time.Second {
			step("%d are Ready, %d were lost (%s)", ready, lost, why)
			shown = time.Now()
		}
		if ready < o.beating {
			return fmt.Errorf("%d of %d nodes are Ready, %d were lost (%s)", ready, o.beating, lost, why)
		}
		return nil
	}); err != nil {
		return err
	}
	_, while, why := c.counts()
	out.set(allBegan, time.Since(begin).Seconds(), fmt.Sprintf("%d nodes, %d were not Ready meanwhile %s", o.beating, while, why))
	return o.watchBeats(ctx, s, c, out)
}

// watchBeats measures while nodes beat.
func (o options) watchBeats(ctx context.Context, s *side, c *crowd, out *outcome) error {
	if err := pause(ctx, o.lease); err != nil { // what the start left to do is done
		return err
	}
	before, err := s.used()
	if err != nil {
		return err
	}
	old, err := s.renewals()
	if err != nil {
		return err
	}
	_, gone, _ := c.counts()
	begin := time.Now()
	done := o.profiled(s, "heartbeat", 20)
	if err := pause(ctx, o.beats); err != nil {
		return err
	}
	done()
	took := time.Since(begin)
	now, err := s.used()
	if err != nil {
		return err
	}
	late, err := s.renewals()
	if err != nil {
		return err
	}
	ready, lost, why := c.counts()
	note := fmt.Sprintf("%d nodes, Leases of %s renewed each %s, %s watched", o.beating, o.lease, o.lease/4, o.beats)
	out.set(notReady, float64(lost-gone), fmt.Sprintf("%s; %d are Ready at the end %s", note, ready, why))
	out.set(renewed, float64(late.GetSampleCount()-old.GetSampleCount())/took.Seconds(), note)
	out.set(renewal99, 1000*quantile(0.99, old, late), "the bound of a bucket of the histogram")
	share := func(d time.Duration) float64 { return 100 * d.Seconds() / took.Seconds() }
	out.set(beatCost, share(now.servers-before.servers), fmt.Sprintf("of one processor; of it controllers %.1f; requests: %s a node", share(now.controllers-before.controllers), before.requests.since(now.requests, o.beating)))
	out.set(beatNodes, share(now.nodes-before.nodes), "of one processor")
	for name, list := range map[string]func() ([]int, error){beatRSS: s.servers, beatCtl: s.controllers, hollowRSS: fixed(s.hollow.Pid())} {
		rss, anonymous, err := weight(list)
		if err != nil {
			return err
		}
		out.set(name, rss, fmt.Sprintf("anonymous %.0f", anonymous))
	}
	if err := o.heap(s, "heartbeat"); err != nil {
		return err
	}
	age, n, err := s.oldestLease(ctx)
	if err != nil {
		return err
	}
	out.set(oldest, age.Seconds(), fmt.Sprintf("%d Leases", n))
	// Nodes that stop write nothing more; to end them in order would take long.
	err = s.hollow.Stop(syscall.SIGKILL)
	if n != o.beating || ready != o.beating {
		err = errors.Join(err, fmt.Errorf("%d Leases and %d Ready nodes of %d: %s", n, ready, o.beating, why))
	}
	return err
}

// oldestLease is how long ago the node that is most behind renewed its Lease.
func (s *side) oldestLease(ctx context.Context) (age time.Duration, n int, err error) {
	list, err := s.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, 0, err
	}
	now := time.Now()
	for _, l := range list.Items {
		if l.Spec.RenewTime == nil {
			return 0, 0, fmt.Errorf("the Lease %s was never renewed", l.Name)
		}
		age = max(age, now.Sub(l.Spec.RenewTime.Time))
	}
	return age, len(list.Items), nil
}

// renewals is the API server's histogram of updates of Leases.
func (s *side) renewals() (*dto.Histogram, error) {
	families, err := s.metrics()
	if err != nil {
		return nil, err
	}
	f := families[requestDuration]
	for _, m := range f.GetMetric() {
		labels := labelsOf(m)
		if labels["verb"] == "PUT" && labels["resource"] == "leases" && labels["subresource"] == "" && labels["scope"] == "resource" {
			return m.GetHistogram(), nil
		}
	}
	return nil, fmt.Errorf("the API server has no metric %s of updates of Leases", requestDuration)
}

// quantile is the upper bound of the bucket that a part of what was counted between two
// looks stays below; infinite where it is the last one.
func quantile(part float64, before, after *dto.Histogram) float64 {
	had := map[float64]uint64{}
	for _, b := range before.GetBucket() {
		had[b.GetUpperBound()] = b.GetCumulativeCount()
	}
	all := float64(after.GetSampleCount() - before.GetSampleCount())
	for _, b := range after.GetBucket() {
		if float64(b.GetCumulativeCount()-had[b.GetUpperBound()]) >= part*all {
			return b.GetUpperBound()
		}
	}
	return math.Inf(1)
}
