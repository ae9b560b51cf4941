package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

// What each node has: CPU in thousandths, and pods.
const (
	roomCPU  = 4000
	roomPods = 8
)

// tenant is a pod as the last event told of it.
type tenant struct {
	name, node string
	cpu        int64
	leaving    bool // deleted, and nobody has ended it yet
}

// bookkeeper reads what became of pods, revision by revision, over crashes of
// the kernel: at no revision a node holds more than it has room for, and no pod
// is ever on a second node.
type bookkeeper struct {
	mu       sync.Mutex
	revision string
	tenants  map[types.UID]tenant
	homes    map[types.UID]string // of every pod that ever had one
	used     map[string]struct{ cpu, pods int64 }
	evicted  int // for a pod of higher priority
	faults   []string
}

func (b *bookkeeper) fault(format string, args ...any) {
	if len(b.faults) < 10 {
		b.faults = append(b.faults, fmt.Sprintf(format, args...))
	}
}

func (b *bookkeeper) see(e watch.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	pod, ok := e.Object.(*corev1.Pod)
	if !ok {
		b.fault("the watch from revision %s says %v", b.revision, e.Object)
		return
	}
	before, _ := strconv.ParseUint(b.revision, 10, 64)
	if now, err := strconv.ParseUint(pod.ResourceVersion, 10, 64); err != nil || now <= before {
		b.fault("revision %s comes after %s: %v", pod.ResourceVersion, b.revision, err)
	}
	b.revision = pod.ResourceVersion
	if e.Type == watch.Bookmark {
		return
	}
	if old := b.tenants[pod.UID]; old.node != "" {
		u := b.used[old.node]
		u.cpu, u.pods = u.cpu-old.cpu, u.pods-1
		b.used[old.node] = u
	}
	now := tenant{name: pod.Name, node: pod.Spec.NodeName, cpu: pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue(), leaving: pod.DeletionTimestamp != nil}
	home, lived := b.homes[pod.UID]
	if lived && home != now.node {
		b.fault("pod %s was on %s and is on %q at revision %s", pod.Name, home, now.node, b.revision)
	}
	if now.node != "" {
		b.homes[pod.UID] = now.node
		if pod.Spec.SchedulerName != corev1.DefaultSchedulerName {
			b.fault("pod %s of profile %s, whose predicate never answers, is on %s", pod.Name, pod.Spec.SchedulerName, now.node)
		}
	}
	if e.Type == watch.Deleted {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.DisruptionTarget && c.Reason == corev1.PodReasonPreemptionByScheduler {
				b.evicted++
			}
		}
		delete(b.tenants, pod.UID)
		return
	}
	b.tenants[pod.UID] = now
	if now.node != "" {
		u := b.used[now.node]
		u.cpu, u.pods = u.cpu+now.cpu, u.pods+1
		b.used[now.node] = u
		if u.cpu > roomCPU || u.pods > roomPods {
			b.fault("%s holds %d pods that ask for %dm at revision %s; it has room for %d and %dm", now.node, u.pods, u.cpu, b.revision, roomPods, roomCPU)
		}
	}
}

// follow reads on from the last revision until the kernel or ctx ends.
func (b *bookkeeper) follow(ctx context.Context, client kubernetes.Interface) {
	for ctx.Err() == nil {
		w, err := client.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{ResourceVersion: b.revision, AllowWatchBookmarks: true})
		if err != nil {
			if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
				b.mu.Lock()
				b.fault("the history is not whole: %v", err)
				b.mu.Unlock()
			}
			return
		}
		for e := range w.ResultChan() {
			if e.Type == watch.Error && ctx.Err() != nil {
				return // we broke it off ourselves
			}
			b.see(e)
		}
	}
}

func (b *bookkeeper) bound() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.homes)
}

// next says what a client does: end a pod that is leaving, delete one when there
// are many, or else create one.
func (b *bookkeeper) next() (end, remove string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for uid, t := range b.tenants {
		if t.leaving {
			t.leaving = false // another client does not try it too
			b.tenants[uid] = t
			return t.name, ""
		}
	}
	if len(b.tenants) > 60 {
		for _, t := range b.tenants {
			return "", t.name
		}
	}
	return "", ""
}

// press creates, deletes and ends pods until the kernel or ctx ends.
func (b *bookkeeper) press(ctx context.Context, client kubernetes.Interface, prefix string, seed uint64) {
	pods, random := client.CoreV1().Pods("default"), rand.New(rand.NewPCG(seed, 1))
	for i := 0; ctx.Err() == nil; i++ {
		var err error
		switch end, remove := b.next(); {
		case end != "":
			err = pods.Delete(ctx, end, *metav1.NewDeleteOptions(0))
		case remove != "":
			err = pods.Delete(ctx, remove, metav1.DeleteOptions{})
		default:
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", prefix, i)},
				Spec: corev1.PodSpec{
					Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
					Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
						Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse([]string{"100m", "500m", "1", "2"}[random.IntN(4)])},
					}}},
				},
			}
			switch random.IntN(10) {
			case 0, 1, 2:
				pod.Spec.PriorityClassName = "urgent"
			case 3, 4: // three of a group come from three clients, or from fewer
				pod.Labels = map[string]string{"example.com/gang": fmt.Sprint("gang-", i/10), "example.com/gang-min-member": "3"}
			case 5:
				pod.Spec.SchedulerName = []string{"loops", "traps"}[random.IntN(2)]
			}
			_, err = pods.Create(ctx, pod, metav1.CreateOptions{})
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return
		}
	}
}

// TestNoNodeHoldsTooMuch: pods of two priorities, of groups and of profiles whose
// predicates loop or trap come and go at nodes that are always full, beside a
// candidate, and the kernel is killed again and again in the middle of it. No pod
// is bound twice, and at no revision a node is over-committed.
func TestNoNodeHoldsTooMuch(t *testing.T) {
	t.Parallel()
	own := filepath.Join(filepath.Dir(binary(t, "pintle")), "plugins")
	dir := t.TempDir()
	candidate := copyBundle(t, filepath.Join(own, "modern"), filepath.Join(dir, "next"), "modern")
	replace(t, filepath.Join(candidate, "manifest.yaml"), "version: 0.1.0", "version: 0.1.1")
	text := strings.NewReplacer(
		"[DIR]", fmt.Sprintf("[%s, %s]\n  callTimeout: 300ms", own, hostileCatalog(t)),
		"  - name: gang\n", "  - name: loops\n  - name: traps\n  - name: gang\n",
		"  profiles:\n", "  profiles:\n  - {schedulerName: loops, queueSort: GangSort, predicates: [NodeResourcesFit, Loops]}\n  - {schedulerName: traps, queueSort: GangSort, predicates: [NodeResourcesFit, Traps]}\n",
	).Replace(gangConfig)
	file, data := write(t, filepath.Join(dir, "pintle.yaml"), text), filepath.Join(dir, "data")
	books := &bookkeeper{tenants: map[types.UID]tenant{}, homes: map[types.UID]string{}, used: map[string]struct{ cpu, pods int64 }{}}

	const lives, enough = 3, 100
	for life := range lives {
		e := minimal(t, file, data)
		e.Env = append(e.Env, "KUBECONFIG="+e.Kubeconfig)
		if life == 0 {
			e.placer(t)
			for i := range 2 {
				name := fmt.Sprint("n", i)
				e.kubectl(t, "patch", "node", name, "--subresource=status", "--type=merge", "-p", fmt.Sprintf(`{"status":{"allocatable":{"cpu":"%dm","pods":"%d"}}}`, roomCPU, roomPods))
			}
			if _, err := e.client.SchedulingV1().PriorityClasses().Create(bound(t), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 1000}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			e.pintle(t, nil, "plugin", "shadow", "NodeResourcesFit", "--path", candidate, "--data", data).must(t)
			list, err := e.client.CoreV1().Pods("default").List(bound(t), metav1.ListOptions{})
			if err != nil || len(list.Items) != 0 {
				t.Fatalf("%v %v", list, err)
			}
			books.revision = list.ResourceVersion
		}
		ctx, cancel := context.WithCancel(t.Context())
		var reading, pressing sync.WaitGroup
		reading.Go(func() { books.follow(ctx, e.client) })
		from := books.bound()
		for w := range 6 {
			pressing.Go(func() { books.press(ctx, e.client, fmt.Sprintf("p-%d-%d", life, w), uint64(life*10+w)) })
		}
		within(t, 2*patience, func(context.Context) error {
			if n := books.bound() - from; n < enough {
				return fmt.Errorf("%d pods were bound in life %d", n, life)
			}
			return nil
		})
		if life < lives-1 {
			e.Kill()
			pressing.Wait()
			reading.Wait()
			cancel()
			continue
		}
		// What the books say is what there is, as soon as nobody writes.
		cancel()
		pressing.Wait()
		reading.Wait()
		last, end := context.WithCancel(t.Context())
		reading.Go(func() { books.follow(last, e.client) })
		var diff struct{ Compared, Disagreed int64 }
		eventually(t, func(ctx context.Context) error {
			if r := e.pintle(t, &diff, "plugin", "diff", "NodeResourcesFit"); r.err != nil {
				return fmt.Errorf("%w: %s", r.err, r.stderr)
			}
			list, err := e.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			books.mu.Lock()
			defer books.mu.Unlock()
			for _, pod := range list.Items {
				if at := books.tenants[pod.UID]; at.name != pod.Name || at.node != pod.Spec.NodeName {
					return fmt.Errorf("pod %s is on %q; seen was %+v", pod.Name, pod.Spec.NodeName, at)
				}
			}
			if len(list.Items) != len(books.tenants) {
				return fmt.Errorf("%d pods; seen were %d", len(list.Items), len(books.tenants))
			}
			return nil
		})
		end()
		reading.Wait()
		t.Logf("%d pods were bound, %d of them evicted for others; the candidate was asked about %d", len(books.homes), books.evicted, diff.Compared)
		if diff.Compared == 0 || diff.Disagreed != 0 {
			t.Errorf("the candidate is the same plugin: %+v", diff)
		}
		e.stop(t)
	}
	if books.evicted == 0 {
		t.Error("nobody was evicted")
	}
	for _, f := range books.faults {
		t.Error(f)
	}
}
