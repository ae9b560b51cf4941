package storage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

// form is a format that encoded items of lists are kept in.
type form int

const (
	formJSON form = iota
	formProtobuf
	forms
)

// encode gives obj as it stands among the items of a list, byte for byte as k8s.io/apimachinery's serializers write it.
func (f form) encode(obj runtime.Object) ([]byte, error) {
	if f == formProtobuf {
		m, ok := obj.(interface{ Marshal() ([]byte, error) })
		if !ok {
			return nil, fmt.Errorf("%T has no protobuf encoding", obj)
		}
		return m.Marshal()
	}
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(obj); err != nil {
		return nil, err
	}
	return bytes.Clone(b.Bytes()[:b.Len()-1]), nil // without the newline
}

// decode is the reverse of encode.
func (f form) decode(raw []byte, into any) error {
	if f == formProtobuf {
		m, ok := into.(interface{ Unmarshal([]byte) error })
		if !ok {
			return fmt.Errorf("%T has no protobuf encoding", into)
		}
		return m.Unmarshal(raw)
	}
	return json.Unmarshal(raw, into)
}

// encodingBudget is what the encodings of all resources share.
type encodingBudget struct {
	max  int64
	used atomic.Int64
	// idle is after how long without a list a resource's encodings are dropped.
	idle time.Duration
}

// encodings holds one resource's objects as lists send them, from the first list that sends one until lists have been
// absent for a while. They are kept apart from the decoded objects: a list needs one of the two, and what is decoded
// has to stay when nobody lists.
type encodings struct {
	budget *encodingBudget

	mu    sync.RWMutex
	items map[string]encoded
	used  time.Time
	// timer drops the items; nil when there are none.
	timer *time.Timer
}

type encoded struct {
	revision uint64
	raw      [forms][]byte
}

func (e encoded) size() int64 {
	n := 0
	for _, raw := range e.raw {
		n += len(raw)
	}
	return int64(n) + overhead
}

func newEncodings(budget *encodingBudget) *encodings {
	return &encodings{budget: budget, items: map[string]encoded{}}
}

func (c *encodings) get(key string, revision uint64, f form) ([]byte, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	e, ok := c.items[key]
	if !ok || e.revision != revision || e.raw[f] == nil {
		return nil, false
	}
	return e.raw[f], true
}

// put keeps an encoding unless one of a newer revision is there. To make room it drops others at random: a list goes
// through all of them in order, and of those that it meets next the oldest would be the first to go.
func (c *encodings) put(key string, revision uint64, f form, raw []byte) {
	if int64(len(raw))+overhead > c.budget.max {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	old, ok := c.items[key]
	if ok && old.revision > revision {
		return
	}
	e := encoded{revision: revision}
	if ok {
		c.budget.used.Add(-old.size())
		if old.revision == revision {
			e = old
		}
	}
	e.raw[f] = raw
	c.items[key] = e
	used := c.budget.used.Add(e.size())
	if c.timer == nil {
		c.used = time.Now()
		c.timer = time.AfterFunc(c.budget.idle, c.rest)
	}
	if used <= c.budget.max {
		return
	}
	for k, e := range c.items {
		delete(c.items, k)
		if used = c.budget.used.Add(-e.size()); used <= c.budget.max {
			return
		}
	}
}

// touch tells that a list uses the encodings.
func (c *encodings) touch() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used = time.Now()
}

// rest drops everything when no list came for long enough, and else looks again when it may have been.
func (c *encodings) rest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer == nil {
		return
	}
	if left := c.budget.idle - time.Since(c.used); left > 0 {
		c.timer.Reset(left)
		return
	}
	c.drop()
}

func (c *encodings) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
	c.drop()
}

func (c *encodings) drop() {
	for _, e := range c.items {
		c.budget.used.Add(-e.size())
	}
	c.items, c.timer = map[string]encoded{}, nil
}
