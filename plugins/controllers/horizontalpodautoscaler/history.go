package horizontalpodautoscaler

import (
	"slices"
	"sync"
	"time"
)

// recommendation is a size that the metrics asked for, before it was stabilised.
type recommendation struct {
	replicas int32
	at       time.Time
}

// change is how many replicas a scaling added or took away.
type change struct {
	replicas int32 // never negative
	at       time.Time
}

// history is what is remembered of one autoscaler. One worker at a time has it, since
// the queue gives a key to one.
type history struct {
	recommendations []recommendation
	ups, downs      []change
}

// histories keeps them by key.
type histories struct {
	mu sync.Mutex
	of map[string]*history
}

func (h *histories) get(key string, replicas int32) *history {
	h.mu.Lock()
	defer h.mu.Unlock()
	found := h.of[key]
	if found == nil {
		// The present size counts as recommended, so that a start scales nothing down.
		found = &history{recommendations: []recommendation{{replicas, time.Now()}}}
		h.of[key] = found
	}
	return found
}

func (h *histories) forget(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.of, key)
}

// recommend remembers a recommendation and drops those that are older than all windows.
func (h *history) recommend(replicas int32, longest time.Duration) {
	oldest := time.Now().Add(-longest)
	h.recommendations = slices.DeleteFunc(h.recommendations, func(r recommendation) bool { return r.at.Before(oldest) })
	h.recommendations = append(h.recommendations, recommendation{replicas, time.Now()})
}

// note adds a scaling to a list and drops what is older than the longest period.
func note(list []change, replicas int32, longest time.Duration) []change {
	oldest := time.Now().Add(-longest)
	list = slices.DeleteFunc(list, func(c change) bool { return c.at.Before(oldest) })
	return append(list, change{replicas, time.Now()})
}

// within sums up the changes of the last period.
func within(list []change, period time.Duration) (sum int64) {
	oldest := time.Now().Add(-period)
	for _, c := range list {
		if c.at.After(oldest) {
			sum += int64(c.replicas)
		}
	}
	return sum
}
