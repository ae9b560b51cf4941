package horizontalpodautoscaler

import (
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// pair is a label and its value.
type pair struct{ key, value string }

// selectorIndex knows the selectors of the autoscalers' targets, and which of them
// select a pod. Most selectors ask for the value of a label: they lie by that, so that a
// pod is compared with few of thousands.
type selectorIndex struct {
	mu     sync.RWMutex
	spaces map[string]*selectorSpace
	count  int
}

// selectorSpace is a namespace's part.
type selectorSpace struct {
	of     map[string]labels.Selector // by autoscaler; nil: not known yet
	byPair map[pair]map[string]labels.Selector
	others map[string]labels.Selector
}

func newSelectorIndex() *selectorIndex {
	return &selectorIndex{spaces: map[string]*selectorSpace{}}
}

func (x *selectorIndex) size() int {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.count
}

// add makes an autoscaler known, and says whether it was not.
func (x *selectorIndex) add(namespace, name string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	space := x.spaces[namespace]
	if space == nil {
		space = &selectorSpace{of: map[string]labels.Selector{}, byPair: map[pair]map[string]labels.Selector{}, others: map[string]labels.Selector{}}
		x.spaces[namespace] = space
	}
	if _, known := space.of[name]; known {
		return false
	}
	space.of[name] = nil
	x.count++
	return true
}

func (x *selectorIndex) remove(namespace, name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	space := x.spaces[namespace]
	if space == nil {
		return
	}
	if _, known := space.of[name]; !known {
		return
	}
	space.drop(name)
	delete(space.of, name)
	x.count--
	if len(space.of) == 0 {
		delete(x.spaces, namespace)
	}
}

// set notes the selector of a known autoscaler's target.
func (x *selectorIndex) set(namespace, name string, selector labels.Selector) {
	x.mu.Lock()
	defer x.mu.Unlock()
	space := x.spaces[namespace]
	if space == nil {
		return // it was deleted meanwhile
	}
	former, known := space.of[name]
	if !known || former != nil && former.String() == selector.String() {
		return
	}
	space.drop(name)
	space.of[name] = selector
	lies, has := firstPair(selector)
	if !has {
		space.others[name] = selector
		return
	}
	if space.byPair[lies] == nil {
		space.byPair[lies] = map[string]labels.Selector{}
	}
	space.byPair[lies][name] = selector
}

func (s *selectorSpace) drop(name string) {
	former := s.of[name]
	if former == nil {
		return
	}
	lies, has := firstPair(former)
	if !has {
		delete(s.others, name)
		return
	}
	delete(s.byPair[lies], name)
	if len(s.byPair[lies]) == 0 {
		delete(s.byPair, lies)
	}
}

// firstPair is a label that a selector demands with one value.
func firstPair(selector labels.Selector) (pair, bool) {
	requirements, selectable := selector.Requirements()
	if !selectable {
		return pair{}, false
	}
	for _, r := range requirements {
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			if values := r.ValuesUnsorted(); len(values) == 1 {
				return pair{r.Key(), values[0]}, true
			}
		}
	}
	return pair{}, false
}

// selecting names the autoscalers whose targets' selectors select any of the pods, as
// namespace/name, sorted.
func (x *selectorIndex) selecting(namespace string, pods []*corev1.Pod) []string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	space := x.spaces[namespace]
	if space == nil {
		return nil
	}
	found, looked := map[string]struct{}{}, map[string]struct{}{}
	look := func(list map[string]labels.Selector, of labels.Set) {
		for name, selector := range list {
			if selector.Matches(of) {
				found[namespace+"/"+name] = struct{}{}
			}
		}
	}
	for _, p := range pods {
		// Pods of one template have the same labels.
		same := labels.Set(p.Labels).String()
		if _, done := looked[same]; done {
			continue
		}
		looked[same] = struct{}{}
		look(space.others, p.Labels)
		for key, value := range p.Labels {
			look(space.byPair[pair{key, value}], p.Labels)
		}
	}
	return slices.Sorted(maps.Keys(found))
}
