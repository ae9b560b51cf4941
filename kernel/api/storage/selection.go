package storage

import (
	"fmt"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	op "k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/storage"

	"pintle.dev/pintle/kernel/store"
)

// selection is what the watches of one selector share: what it selects is found out once an event, not once a watch.
type selection struct {
	key       string
	predicate storage.SelectionPredicate
	// refs counts the watches; Storage.mu guards it.
	refs int

	mu sync.Mutex
	// verdicts are those of the latest events, by revision, from when there are two watches. Who is further behind has
	// the selector asked again.
	verdicts []verdict
}

// verdict says whether the selector takes the object after an event and the one before it.
type verdict struct {
	revision    uint64
	now, before bool
}

// selectionKey names equal selectors by equal strings; ok is false for one that is not to be shared.
func selectionKey(p storage.SelectionPredicate) (key string, ok bool) {
	if p.Empty() || p.ShardSelector != nil || p.Label == nil || p.Field == nil {
		return "", false
	}
	return fmt.Sprintf("%q %q %x", p.Label, p.Field, reflect.ValueOf(p.GetAttrs).Pointer()), true
}

// join gives the selection of a predicate, nil when there is nothing to share. Each join is to be followed by a leave.
func (s *Storage) join(p storage.SelectionPredicate) *selection {
	key, ok := selectionKey(p)
	if !ok {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sel := s.selections[key]
	if sel == nil {
		sel = &selection{key: key, predicate: p}
		s.selections[key] = sel
	}
	if sel.refs++; sel.refs == 2 {
		sel.remember()
	}
	return sel
}

func (s *Storage) leave(sel *selection) {
	if sel == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sel.refs--; sel.refs == 0 {
		delete(s.selections, sel.key)
	}
}

// remembered is the number of verdicts kept.
const remembered = 256

func (sel *selection) remember() {
	sel.mu.Lock()
	defer sel.mu.Unlock()
	if sel.verdicts == nil {
		sel.verdicts = make([]verdict, remembered)
	}
}

// verdict asks the selector about an event whose objects are given, or remembers what it said. previous may be nil for
// an event that is no update.
func (sel *selection) verdict(e *store.Event, obj, previous runtime.Object) (now, before bool) {
	sel.mu.Lock()
	defer sel.mu.Unlock()
	v := &verdict{}
	if sel.verdicts != nil {
		v = &sel.verdicts[e.Revision%remembered]
	}
	if v.revision != e.Revision {
		*v = verdict{revision: e.Revision, now: matches(sel.predicate, obj)}
		if e.Type == store.Updated {
			v.before = matches(sel.predicate, previous)
		}
	}
	return v.now, v.before
}

func matches(p storage.SelectionPredicate, obj runtime.Object) bool {
	matched, err := p.Matches(obj)
	return err == nil && matched
}

// term is one condition of a selector on a field that is looked at by itself.
type term struct {
	field func(runtime.Object) string
	value string
	not   bool
}

// terms are all that a selector asks, where that is nothing but fields that watches are indexed by: an object needs no
// list of all its fields then. ok is false for others.
func (s *Storage) terms(p storage.SelectionPredicate) (terms []term, ok bool) {
	if p.Label == nil || !p.Label.Empty() || p.ShardSelector != nil || p.Field == nil {
		return nil, false
	}
	for _, r := range p.Field.Requirements() {
		field := s.trigger[r.Field]
		if field == nil {
			return nil, false
		}
		switch r.Operator {
		case op.Equals, op.DoubleEquals:
			terms = append(terms, term{field, r.Value, false})
		case op.NotEquals:
			terms = append(terms, term{field, r.Value, true})
		default:
			return nil, false
		}
	}
	return terms, len(terms) > 0
}

func meets(terms []term, obj runtime.Object) bool {
	for _, t := range terms {
		if (t.field(obj) == t.value) == t.not {
			return false
		}
	}
	return true
}
