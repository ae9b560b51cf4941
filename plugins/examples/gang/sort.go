package main

import (
	"fmt"
	"time"

	"pintle.dev/pintle/sdk"
)

// remembered bounds the groups whose time is kept, and forgotten is after how long
// it may be left out.
const (
	remembered = 10_000
	forgotten  = time.Hour
)

// sorter keeps when the first member of each group came.
type sorter struct {
	first map[group]time.Time
}

// newSort returns the queue-sort plugin GangSort: by priority, then by time, where
// the members of a group have the time of the first of them. So two groups do not
// take each other's room member by member.
func newSort() sdk.QueueSort {
	s := &sorter{first: map[group]time.Time{}}
	return sdk.QueueSort{Name: "GangSort", Key: s.key}
}

func (s *sorter) key(pod *sdk.QueuedPod) sdk.SortKey {
	came := pod.Queued
	g, _, ok := groupOf(pod.Pod)
	if ok {
		if first, known := s.first[g]; known && first.Before(came) {
			came = first
		} else {
			s.remember(g, came)
		}
	}
	text := fmt.Sprintf("%020d", came.UnixNano())
	if ok {
		text += "/" + g.namespace + "/" + g.name
	}
	if len(text) > 253 {
		text = text[:253]
	}
	return sdk.SortKey{Number: -int64(pod.Priority), Text: text}
}

func (s *sorter) remember(g group, came time.Time) {
	if len(s.first) >= remembered {
		for other, first := range s.first {
			if came.Sub(first) > forgotten || len(s.first) >= 2*remembered {
				delete(s.first, other)
			}
		}
	}
	s.first[g] = came
}
