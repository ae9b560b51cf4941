package namespace

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// report collects what one pass over a namespace met. It may be used by many
// goroutines.
type report struct {
	mu         sync.Mutex
	undetected error // of discovery
	unparsed   error
	contents   []error
	remaining  map[schema.GroupVersionResource]int
	finalizers map[string]int
}

func newReport() *report {
	return &report{remaining: map[schema.GroupVersionResource]int{}, finalizers: map[string]int{}}
}

func (r *report) discovery(err error) { r.undetected = err }
func (r *report) parsing(err error)   { r.unparsed = err }

// content notes a failure to delete; nil is none.
func (r *report) content(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.contents = append(r.contents, err)
	}
}

// remain notes what is left of a kind and says whether finalizers hold it.
func (r *report) remain(resource schema.GroupVersionResource, items []metav1.PartialObjectMetadata) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remaining[resource] = len(items)
	held := false
	for i := range items {
		for _, f := range items[i].Finalizers {
			r.finalizers[f]++
			held = true
		}
	}
	return held
}

func (r *report) total(resource schema.GroupVersionResource) int { return r.remaining[resource] }
func (r *report) failed() bool                                   { return len(r.contents) > 0 }

func (r *report) err() error {
	return errors.Join(append([]error{r.undetected, r.unparsed}, r.contents...)...)
}

// conditions are those of a namespace that is being deleted, in their order;
// each is True for trouble.
func (r *report) conditions() []corev1.NamespaceCondition {
	out := []corev1.NamespaceCondition{
		{Type: corev1.NamespaceDeletionDiscoveryFailure, Reason: "ResourcesDiscovered", Message: "All resources successfully discovered"},
		{Type: corev1.NamespaceDeletionGVParsingFailure, Reason: "ParsedGroupVersions", Message: "All legacy kube types successfully parsed"},
		{Type: corev1.NamespaceDeletionContentFailure, Reason: "ContentDeleted", Message: "All content successfully deleted, may be waiting on finalization"},
		{Type: corev1.NamespaceContentRemaining, Reason: "ContentRemoved", Message: "All content successfully removed"},
		{Type: corev1.NamespaceFinalizersRemaining, Reason: "ContentHasNoFinalizers", Message: "All content-preserving finalizers finished"},
	}
	trouble := func(i int, reason, message string) {
		out[i].Status, out[i].Reason, out[i].Message = corev1.ConditionTrue, reason, message
	}
	for i := range out {
		out[i].Status = corev1.ConditionFalse
	}
	if r.undetected != nil {
		message := r.undetected.Error()
		var groups *discovery.ErrGroupDiscoveryFailed
		if errors.As(r.undetected, &groups) {
			message = fmt.Sprintf("Discovery failed for some groups, %d failing: %v", len(groups.Groups), r.undetected)
		}
		trouble(0, "DiscoveryFailed", message)
	}
	if r.unparsed != nil {
		trouble(1, "GroupVersionParsingFailed", r.unparsed.Error())
	}
	if len(r.contents) > 0 {
		var words []string
		for _, err := range r.contents {
			words = append(words, err.Error())
		}
		slices.Sort(words)
		trouble(2, "ContentDeletionFailed", fmt.Sprintf("Failed to delete all resource types, %d remaining: %v", len(words), strings.Join(words, ", ")))
	}
	if len(r.remaining) > 0 {
		var words []string
		for resource, count := range r.remaining {
			words = append(words, fmt.Sprintf("%s.%s has %d resource instances", resource.Resource, resource.Group, count))
		}
		slices.Sort(words)
		trouble(3, "SomeResourcesRemain", "Some resources are remaining: "+strings.Join(words, ", "))
	}
	if len(r.finalizers) > 0 {
		var words []string
		for _, f := range slices.Sorted(maps.Keys(r.finalizers)) {
			words = append(words, fmt.Sprintf("%s in %d resource instances", f, r.finalizers[f]))
		}
		trouble(4, "SomeFinalizersRemain", "Some content in the namespace has finalizers remaining: "+strings.Join(words, ", "))
	}
	return out
}

// apply brings the conditions into a status and says whether anything changed.
func (r *report) apply(status *corev1.NamespaceStatus, now metav1.Time) bool {
	changed := false
	for _, want := range r.conditions() {
		want.LastTransitionTime = now
		i := slices.IndexFunc(status.Conditions, func(c corev1.NamespaceCondition) bool { return c.Type == want.Type })
		if i < 0 {
			status.Conditions = append(status.Conditions, want)
			changed = true
			continue
		}
		have := &status.Conditions[i]
		if have.Status == want.Status {
			want.LastTransitionTime = have.LastTransitionTime
			if have.Reason == want.Reason && have.Message == want.Message {
				continue
			}
		}
		*have, changed = want, true
	}
	return changed
}
