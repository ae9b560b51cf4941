package job

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

const (
	indexVariable = "JOB_COMPLETION_INDEX"
	noIndex       = -1
	// longestPrefix is how much of a generated name a prefix may be.
	longestPrefix = 58
)

// index is the pod's completion index, noIndex without one that the Job has.
func (p *pass) index(pod *corev1.Pod) int {
	i, err := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
	if err != nil || i < 0 || i >= p.completions {
		return noIndex
	}
	return i
}

// indexesOf returns the indexes of those pods that have one.
func (p *pass) indexesOf(pods []*corev1.Pod, is func(*corev1.Pod) bool) indexes {
	var numbers []int
	for _, pod := range pods {
		if i := p.index(pod); i != noIndex && is(pod) {
			numbers = append(numbers, i)
		}
	}
	return indexes(nil).with(numbers)
}

// lookAtIndexes reads which indexes are done and which failed, from the status
// and from the pods that are not counted yet.
func (p *pass) lookAtIndexes() {
	s := &p.job.Status
	p.doneBefore = parseIndexes(s.CompletedIndexes, p.completions)
	p.done = p.doneBefore.union(p.indexesOf(p.pods, func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodSucceeded && isTracked(pod)
	}))
	p.succeeded = int32(p.done.total())
	if p.job.Spec.BackoffLimitPerIndex == nil {
		return
	}
	p.failedIndexes = parseIndexes(ptr.Deref(s.FailedIndexes, ""), p.completions).union(p.indexesOf(p.pods, func(pod *corev1.Pod) bool {
		return isTracked(pod) && p.failsIndex(pod)
	}))
	active := p.indexesOf(p.active, isActive)
	p.awaiting = map[int]*corev1.Pod{}
	for _, pod := range p.fresh(nil, func(pod *corev1.Pod) bool { return failed(p.job, pod) }) {
		i := p.index(pod)
		if p.done.has(i) || p.failedIndexes.has(i) || active.has(i) {
			continue
		}
		if last := p.awaiting[i]; last == nil || absoluteFailures(last) <= absoluteFailures(pod) && !finishTime(pod).Before(finishTime(last)) {
			p.awaiting[i] = pod
		}
	}
}

// failsIndex says that with this pod its index failed for good.
func (p *pass) failsIndex(pod *corev1.Pod) bool {
	if !failed(p.job, pod) {
		return false
	}
	r := rule(p.job.Spec.PodFailurePolicy, pod)
	if r.action == batchv1.PodFailurePolicyActionFailIndex {
		return true
	}
	return r.counts && failuresAnnotation(pod, batchv1.JobIndexFailureCountAnnotation) >= *p.job.Spec.BackoffLimitPerIndex
}

// failuresAnnotation is a count of failures before this pod, 0 for what is not
// a count, since anyone who may write pods may write it.
func failuresAnnotation(pod *corev1.Pod, key string) int32 {
	n, err := strconv.ParseInt(pod.Annotations[key], 10, 32)
	if err != nil || n < 0 {
		return 0
	}
	return int32(n)
}

// absoluteFailures is how many pods of the index failed before this one,
// whether they counted or not.
func absoluteFailures(pod *corev1.Pod) int32 {
	n := int64(failuresAnnotation(pod, batchv1.JobIndexFailureCountAnnotation)) +
		int64(failuresAnnotation(pod, batchv1.JobIndexIgnoredFailureCountAnnotation))
	return int32(min(n, 1<<30))
}

// pendingIndexes returns up to n indexes that have no pod and need one.
func (p *pass) pendingIndexes(n int) []int {
	taken := p.done.union(p.indexesOf(p.active, isActive)).union(p.failedIndexes)
	if replacesFailedOnly(p.job) {
		taken = taken.union(p.indexesOf(p.pods, isTerminating))
	}
	return taken.firstMissing(n, p.completions)
}

// dueIndexes returns those of the indexes whose back-off is over, or, if that of
// none is, how long the first has still to wait.
func (p *pass) dueIndexes(all []int, now time.Time) ([]int, time.Duration) {
	var due []int
	var shortest time.Duration
	for _, i := range all {
		left := indexLeft(p.awaiting[i], now)
		switch {
		case left == 0:
			due = append(due, i)
		case shortest == 0 || left < shortest:
			shortest = left
		}
	}
	if len(due) > 0 {
		return due, 0
	}
	return nil, shortest
}

// surplus returns at least n of the active pods of an Indexed Job that are to
// go: those without a valid index, of several with one index all but the one
// that has done most, and then those that have done least.
func (p *pass) surplus(n int) []*corev1.Pod {
	if !p.indexed {
		pods := slices.SortedStableFunc(slices.Values(p.active), leastMissed)
		return pods[:n]
	}
	var gone, left []*corev1.Pod
	byIndex := map[int][]*corev1.Pod{}
	for _, pod := range p.active {
		if i := p.index(pod); i == noIndex {
			gone = append(gone, pod)
		} else {
			byIndex[i] = append(byIndex[i], pod)
		}
	}
	for _, i := range slices.Sorted(maps.Keys(byIndex)) {
		pods := byIndex[i]
		slices.SortStableFunc(pods, leastMissed)
		gone = append(gone, pods[:len(pods)-1]...)
		left = append(left, pods[len(pods)-1])
	}
	if more := n - len(gone); more > 0 {
		slices.SortStableFunc(left, leastMissed)
		gone = append(gone, left[:more]...)
	}
	return gone
}

// addIndexVariable gives each container the index in its environment, unless
// the template sets the variable.
func addIndexVariable(t *corev1.PodTemplateSpec) {
	for _, list := range [][]corev1.Container{t.Spec.InitContainers, t.Spec.Containers} {
		for i := range list {
			if slices.ContainsFunc(list[i].Env, func(v corev1.EnvVar) bool { return v.Name == indexVariable }) {
				continue
			}
			list[i].Env = append(list[i].Env, corev1.EnvVar{Name: indexVariable, ValueFrom: &corev1.EnvVarSource{
				FieldRef: &corev1.ObjectFieldSelector{FieldPath: fmt.Sprintf("metadata.labels['%s']", batchv1.JobCompletionIndexAnnotation)},
			}})
		}
	}
}

// templateOf is the template for one index.
func (p *pass) templateOf(t *corev1.PodTemplateSpec, i int) *corev1.PodTemplateSpec {
	t = t.DeepCopy()
	set := func(m *map[string]string, key, value string) {
		if *m == nil {
			*m = map[string]string{}
		}
		(*m)[key] = value
	}
	number := strconv.Itoa(i)
	set(&t.Annotations, batchv1.JobCompletionIndexAnnotation, number)
	set(&t.Labels, batchv1.JobCompletionIndexAnnotation, number)
	t.Spec.Hostname = p.job.Name + "-" + number
	if p.job.Spec.BackoffLimitPerIndex == nil {
		return t
	}
	var counted, ignored int32
	if last := p.awaiting[i]; last != nil {
		counted = failuresAnnotation(last, batchv1.JobIndexFailureCountAnnotation)
		ignored = failuresAnnotation(last, batchv1.JobIndexIgnoredFailureCountAnnotation)
		if rule(p.job.Spec.PodFailurePolicy, last).counts {
			counted++
		} else {
			ignored++
		}
	}
	set(&t.Annotations, batchv1.JobIndexFailureCountAnnotation, strconv.Itoa(int(counted)))
	if ignored > 0 {
		set(&t.Annotations, batchv1.JobIndexIgnoredFailureCountAnnotation, strconv.Itoa(int(ignored)))
	}
	return t
}

// indexPrefix is the prefix of the names of an index's pods.
func indexPrefix(job string, i int) string {
	suffix := "-" + strconv.Itoa(i) + "-"
	return job[:min(len(job), longestPrefix-len(suffix))] + suffix
}
