package recorder

import (
	"container/list"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// refreshAfter is how often the count of a series is written while it goes on.
	refreshAfter = 30 * time.Minute
	// finishAfter ends a series, or an event's chance to become one, when nothing
	// came for so long.
	finishAfter = 6 * time.Minute
	// maxRemembered bounds the events that may become series; the one that came
	// longest ago makes room.
	maxRemembered = 16384
)

// likeness is what events of a series have in common.
type likeness struct {
	kind, action, reason, controller, instance string
	regarding, related                         corev1.ObjectReference
}

func likenessOf(e *eventsv1.Event) likeness {
	l := likeness{kind: e.Type, action: e.Action, reason: e.Reason, controller: e.ReportingController, instance: e.ReportingInstance, regarding: e.Regarding}
	if e.Related != nil {
		l.related = *e.Related
	}
	return l
}

// correlator finds equal events.
type correlator struct {
	mu    sync.Mutex
	known map[likeness]*list.Element
	order list.List // of *remembered: the one that came longest ago first
	ended []*eventsv1.Event
}

type remembered struct {
	likeness
	event *eventsv1.Event // the first, with the series
	last  time.Time
}

func newCorrelator() *correlator { return &correlator{known: map[likeness]*list.Element{}} }

// add takes in an event. For the first of its kind it returns nil; for others the
// event that stands for all, of which the second is to be written now.
func (c *correlator) add(e *eventsv1.Event, at time.Time) (series *eventsv1.Event, second bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := likenessOf(e)
	if place := c.known[key]; place != nil {
		r := place.Value.(*remembered)
		c.order.MoveToBack(place)
		if at.After(r.last) {
			r.last = at
		}
		if second = r.event.Series == nil; second {
			r.event.Series = &eventsv1.EventSeries{Count: 1}
		}
		r.event.Series.Count++
		r.event.Series.LastObservedTime = metav1.NewMicroTime(r.last)
		return r.event.DeepCopy(), second
	}
	for len(c.known) >= maxRemembered {
		c.forget(c.order.Front())
	}
	c.known[key] = c.order.PushBack(&remembered{key, e.DeepCopy(), at})
	return nil, false
}

// forget ends a series, whose count is to be written.
func (c *correlator) forget(place *list.Element) {
	r := place.Value.(*remembered)
	delete(c.known, r.likeness)
	c.order.Remove(place)
	if r.event.Series != nil {
		c.ended = append(c.ended, r.event)
	}
}

// finished forgets what nothing came of for long, and returns the series that
// ended.
func (c *correlator) finished(now time.Time) []*eventsv1.Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	for place := c.order.Front(); place != nil; place = c.order.Front() {
		if !place.Value.(*remembered).last.Before(now.Add(-finishAfter)) {
			break
		}
		c.forget(place)
	}
	ended := c.ended
	c.ended = nil
	return ended
}

// running are the series that go on.
func (c *correlator) running() (all []*eventsv1.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for place := c.order.Front(); place != nil; place = place.Next() {
		if r := place.Value.(*remembered); r.event.Series != nil {
			all = append(all, r.event.DeepCopy())
		}
	}
	return all
}
