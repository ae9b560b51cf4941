package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// errDown is what every write answers after the one at which the controller
// was killed.
var errDown = errors.New("the controller is dead")

// world is an API with Jobs and pods that keeps its promises about versions,
// UIDs and finalizers, and on which tests play the nodes and the users.
type world struct {
	t     *testing.T
	clock clock.PassiveClock

	mu      sync.Mutex
	version int
	jobs    map[string]*batchv1.Job
	pods    map[string]*corev1.Pod
	gone    []*corev1.Pod // pods as they were when they went

	writes int
	dieAt  int                                // the write after which all fail; 0 is never
	refuse func(verb, resource string) error  // of a write, nil lets it pass
	before func(verb, resource string, n int) // sees each write, without the lock
	names  map[string]int                     // of pods, by prefix
	events *record.FakeRecorder               // of all controllers
	made   map[string]int                     // pods made, by index or ""
	status []batchv1.JobStatus                // each that was written
	check  func(old, new *batchv1.Job)        // of each status that is written
}

func newWorld(t *testing.T, clk clock.PassiveClock, job *batchv1.Job) *world {
	w := &world{t: t, clock: clk, jobs: map[string]*batchv1.Job{}, pods: map[string]*corev1.Pod{}, names: map[string]int{}, made: map[string]int{}, events: record.NewFakeRecorder(100_000)}
	if job != nil {
		w.putJob(job)
	}
	return w
}

func (w *world) next() string { w.version++; return strconv.Itoa(w.version) }

func (w *world) putJob(job *batchv1.Job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	job = job.DeepCopy()
	job.ResourceVersion = w.next()
	w.jobs[job.Namespace+"/"+job.Name] = job
}

// changeJob is a user's change.
func (w *world) changeJob(change func(*batchv1.Job)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	job := w.jobs["default/work"].DeepCopy()
	spec := job.Spec.DeepCopy()
	change(job)
	if !jsonEqual(spec, job.Spec) {
		job.Generation++
	}
	job.ResourceVersion = w.next()
	w.jobs["default/work"] = job
}

func jsonEqual(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

func (w *world) job() *batchv1.Job {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.jobs["default/work"].DeepCopy()
}

// list returns the pods by name.
func (w *world) list() []*corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	var pods []*corev1.Pod
	for _, name := range slices.Sorted(maps.Keys(w.pods)) {
		pods = append(pods, w.pods[name].DeepCopy())
	}
	return pods
}

// changePod is a change by a node or a user. A pod that is being deleted goes
// when it has ended and no finalizer holds it.
func (w *world) changePod(name string, change func(*corev1.Pod)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pod := w.pods[name].DeepCopy()
	change(pod)
	w.storePod(pod)
}

func (w *world) storePod(pod *corev1.Pod) {
	pod.ResourceVersion = w.next()
	if pod.DeletionTimestamp != nil && len(pod.Finalizers) == 0 && (ended(pod) || pod.Spec.NodeName == "") {
		w.gone = append(w.gone, pod)
		delete(w.pods, pod.Name)
		return
	}
	w.pods[pod.Name] = pod
}

// run starts a pod on a node.
func (w *world) run(name string) {
	w.changePod(name, func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status.Phase = "node", corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.clock.Now())}}
	})
}

// end ends a pod with the exit code of its container.
func (w *world) end(name string, code int32) {
	w.changePod(name, func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status.Phase, p.Status.Conditions = "node", corev1.PodSucceeded, nil
		if code != 0 {
			p.Status.Phase = corev1.PodFailed
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.NewTime(w.clock.Now())},
		}}}
	})
}

// client returns a client of the world.
func (w *world) client() *fake.Clientset {
	client := fake.NewClientset()
	client.PrependReactor("*", "*", func(a k8stesting.Action) (bool, runtime.Object, error) {
		if a.GetVerb() != "get" && a.GetVerb() != "list" && a.GetVerb() != "watch" {
			if err := w.write(a); err != nil {
				return true, nil, err
			}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		obj, err := w.serve(a)
		return true, obj, err
	})
	return client
}

// write says whether a write reaches the API.
func (w *world) write(a k8stesting.Action) error {
	w.mu.Lock()
	w.writes++
	n, dead, refuse, before := w.writes, w.dieAt > 0 && w.writes > w.dieAt, w.refuse, w.before
	w.mu.Unlock()
	if dead {
		return errDown
	}
	if before != nil {
		before(a.GetVerb(), a.GetResource().Resource, n)
	}
	if refuse != nil {
		return refuse(a.GetVerb(), a.GetResource().Resource)
	}
	return nil
}

func (w *world) serve(a k8stesting.Action) (runtime.Object, error) {
	key := func(name string) string { return a.GetNamespace() + "/" + name }
	switch a := a.(type) {
	case k8stesting.PatchActionImpl:
		return w.patch(a)
	case k8stesting.CreateActionImpl:
		return w.create(a.Object.(*corev1.Pod))
	case k8stesting.UpdateActionImpl:
		return w.updateStatus(a.Object.(*batchv1.Job))
	case k8stesting.DeleteActionImpl:
		pod := w.pods[a.Name]
		if pod == nil {
			return nil, apierrors.NewNotFound(podsResource, a.Name)
		}
		if uid := a.DeleteOptions.Preconditions.UID; *uid != pod.UID {
			return nil, apierrors.NewConflict(podsResource, a.Name, errors.New("precondition"))
		}
		if pod = pod.DeepCopy(); pod.DeletionTimestamp == nil {
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(w.clock.Now())), ptr.To[int64](0)
		}
		w.storePod(pod)
		return nil, nil
	case k8stesting.GetActionImpl:
		if job := w.jobs[key(a.Name)]; job != nil {
			return job.DeepCopy(), nil
		}
		return nil, apierrors.NewNotFound(jobsResource, a.Name)
	}
	return nil, fmt.Errorf("%s of %s is not served", a.GetVerb(), a.GetResource())
}

func (w *world) create(pod *corev1.Pod) (runtime.Object, error) {
	pod = pod.DeepCopy()
	w.names[pod.GenerateName]++
	pod.Name = fmt.Sprintf("%s%05d", pod.GenerateName, w.names[pod.GenerateName])
	pod.UID, pod.Namespace, pod.ResourceVersion = types.UID(pod.Name), "default", w.next()
	pod.CreationTimestamp = metav1.NewTime(w.clock.Now())
	pod.Status.Phase = corev1.PodPending
	w.pods[pod.Name] = pod
	w.made[pod.Annotations[batchv1.JobCompletionIndexAnnotation]]++
	return pod.DeepCopy(), nil
}

func (w *world) patch(a k8stesting.PatchActionImpl) (runtime.Object, error) {
	pod := w.pods[a.Name]
	if pod == nil {
		return nil, apierrors.NewNotFound(podsResource, a.Name)
	}
	var meta struct{ Metadata struct{ UID types.UID } }
	if err := json.Unmarshal(a.Patch, &meta); err != nil {
		return nil, err
	}
	if meta.Metadata.UID != pod.UID {
		return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), a.Name, nil)
	}
	before, _ := json.Marshal(pod)
	after, err := strategicpatch.StrategicMergePatch(before, a.Patch, &corev1.Pod{})
	if err != nil {
		return nil, err
	}
	patched := &corev1.Pod{}
	if err := json.Unmarshal(after, patched); err != nil {
		return nil, err
	}
	w.storePod(patched)
	return patched.DeepCopy(), nil
}

func (w *world) updateStatus(job *batchv1.Job) (runtime.Object, error) {
	key := job.Namespace + "/" + job.Name
	old := w.jobs[key]
	if old == nil || old.UID != job.UID {
		return nil, apierrors.NewNotFound(jobsResource, job.Name)
	}
	if old.ResourceVersion != job.ResourceVersion {
		return nil, apierrors.NewConflict(jobsResource, job.Name, errors.New("another version"))
	}
	updated := old.DeepCopy()
	updated.Status, updated.ResourceVersion = *job.Status.DeepCopy(), w.next()
	if w.check != nil {
		w.check(old, updated)
	}
	w.jobs[key] = updated
	w.status = append(w.status, *updated.Status.DeepCopy())
	return updated.DeepCopy(), nil
}

// process is a controller of the world. Its caches show what refresh brings.
type process struct {
	*jobController
	w *world
}

func (w *world) start() *process {
	w.t.Helper()
	shared := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	c, err := build(w.client(), shared, Config{ConcurrentJobSyncs: 1}, w.clock, slog.New(slog.DiscardHandler))
	if err != nil {
		w.t.Fatal(err)
	}
	c.Recorder = w.events
	w.t.Cleanup(func() { c.Close(); c.orphans.Close() })
	p := &process{c, w}
	p.refreshJobs()
	p.refreshPods()
	return p
}

func (p *process) refreshJobs() {
	p.w.mu.Lock()
	version := strconv.Itoa(p.w.version)
	var now []any
	for _, job := range p.w.jobs {
		now = append(now, job)
	}
	p.w.mu.Unlock()
	follow(p.w.t, p.jobs, now, version, p.jobChanged)
}

func (p *process) refreshPods() {
	p.w.mu.Lock()
	version := strconv.Itoa(p.w.version)
	var now []any
	for _, pod := range p.w.pods {
		now = append(now, pod)
	}
	p.w.mu.Unlock()
	follow(p.w.t, p.pods, now, version, p.podChanged)
}

// follow replaces what an indexer holds and calls changed as an informer does.
func follow[T interface {
	comparable
	metav1.Object
}](t *testing.T, to interface {
	List() []any
	Replace([]any, string) error
}, now []any, version string, changed func(old, current T)) {
	t.Helper()
	var none T
	old := map[string]T{}
	for _, o := range to.List() {
		old[o.(T).GetName()] = o.(T)
	}
	if err := to.Replace(now, version); err != nil {
		t.Fatal(err)
	}
	for _, o := range now {
		was, is := old[o.(T).GetName()], o.(T)
		delete(old, is.GetName())
		if was == none || was.GetResourceVersion() != is.GetResourceVersion() {
			changed(was, is)
		}
	}
	for _, o := range old {
		changed(o, none)
	}
}

// look is a sync on caches that are up to date.
func (p *process) look() error {
	p.refreshJobs()
	p.refreshPods()
	return p.sync(p.w.t.Context(), "default/work")
}

// settled syncs, and frees orphans, until nothing is written any more.
func (p *process) settled() {
	p.w.t.Helper()
	for range 1000 {
		before := p.w.writes
		if err := p.look(); err != nil {
			p.w.t.Fatal(err)
		}
		p.free()
		if p.w.writes == before {
			return
		}
	}
	p.w.t.Fatal("1000 syncs and it still writes")
}

// free works off what the orphan queue would.
func (p *process) free() {
	p.refreshPods()
	for _, o := range p.pods.List() {
		if err := p.freeOrphan(p.w.t.Context(), o.(*corev1.Pod)); err != nil && !errors.Is(err, errDown) {
			p.w.t.Log(err)
		}
	}
}

func work(change func(*batchv1.Job)) *batchv1.Job {
	labels := map[string]string{"job": "work"}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "work", UID: "work-uid", Generation: 1},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To[int32](1), Completions: ptr.To[int32](1), BackoffLimit: ptr.To[int32](6),
			CompletionMode: ptr.To(batchv1.NonIndexedCompletion), Suspend: ptr.To(false),
			PodReplacementPolicy: ptr.To(batchv1.TerminatingOrFailed),
			Selector:             &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "x"}}},
			},
		},
	}
	if change != nil {
		change(job)
	}
	return job
}

func indexedWork(parallelism, completions int32, change func(*batchv1.Job)) *batchv1.Job {
	return work(func(j *batchv1.Job) {
		j.Spec.Parallelism, j.Spec.Completions, j.Spec.CompletionMode = &parallelism, &completions, ptr.To(batchv1.IndexedCompletion)
		if change != nil {
			change(j)
		}
	})
}

// told returns the events since the last call, as a line each.
func (w *world) told() []string {
	var all []string
	for {
		select {
		case e := <-w.events.Events:
			all = append(all, e)
		default:
			return all
		}
	}
}

// conditions are the types of the Job's true conditions with their reasons.
func conditions(job *batchv1.Job) string {
	var all []string
	for _, c := range job.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			all = append(all, string(c.Type)+":"+c.Reason)
		} else {
			all = append(all, "!"+string(c.Type)+":"+c.Reason)
		}
	}
	return strings.Join(all, " ")
}

func seeded(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 17)) }

var start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
