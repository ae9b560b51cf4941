//go:build linux && (amd64 || arm64)

package crash

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"pintle.dev/pintle/kernel/bus"
	"pintle.dev/pintle/kernel/store"
)

// event is a revision as the writer told of it.
type event struct {
	kind, key string
	previous  uint64
	sum       uint32
}

const void = "void"

// model is what the store must hold.
type model struct {
	// events by revision; 0 and 1 are none.
	events []event
	voids  int
	// seen is the last revision that each watch saw.
	seen []uint64
	// compacted is where the last compaction may have come to.
	compacted uint64
}

func newModel() *model {
	m := &model{events: []event{{kind: void}, {kind: void}}, seen: make([]uint64, len(watched))}
	for i := range m.seen {
		m.seen[i] = 1
	}
	return m
}

func (m *model) last() uint64 { return uint64(len(m.events) - 1) }

// sight is an event that a watch saw.
type sight struct {
	watch    int
	revision uint64
	event
}

// inFlight is what a writer planned and had not published when it was killed.
type inFlight struct {
	flight map[uint64]event
	sights []sight
}

// read takes a writer's report: what it published is part of the model from then on.
func (m *model) read(lines []string, compact uint64) (in inFlight, err error) {
	in.flight = map[uint64]event{}
	acknowledged := map[uint64]bool{}
	for _, line := range lines {
		var revision uint64
		var e event
		var s sight
		switch line[0] {
		case 'P':
			_, err = fmt.Sscanf(line, "P %d %s %s %d %d", &revision, &e.kind, &e.key, &e.previous, &e.sum)
			in.flight[revision] = e
		case 'E':
			_, err = fmt.Sscanf(line, "E %d %s %s %d %d", &revision, &e.kind, &e.key, &e.previous, &e.sum)
			if revision != m.last()+1 {
				return in, fmt.Errorf("revision %d was published after %d", revision, m.last())
			}
			if p, planned := in.flight[revision]; planned && p != e {
				return in, fmt.Errorf("revision %d was planned as %v and published as %v", revision, p, e)
			}
			delete(in.flight, revision)
			m.events = append(m.events, e)
		case 'A':
			_, err = fmt.Sscanf(line, "A %d", &revision)
			acknowledged[revision] = true
		case 'W':
			var hash string
			_, err = fmt.Sscanf(line, "W %d %d %s %s %s", &s.watch, &s.revision, &s.kind, &s.key, &hash)
			if _, notSaid := fmt.Sscan(hash, &s.sum); notSaid != nil {
				s.sum = 0
			}
			in.sights = append(in.sights, s)
		case 'K':
			m.compacted = compact
		default:
			err = errors.New("unknown")
		}
		if err != nil {
			return in, fmt.Errorf("report %q: %w", line, err)
		}
	}
	for revision := range acknowledged {
		if revision > m.last() {
			return in, fmt.Errorf("revision %d was acknowledged and not published", revision)
		}
	}
	for _, s := range in.sights {
		if err := m.sight(s); err != nil {
			return in, err
		}
	}
	return in, nil
}

// sight checks that a watch saw the next event that is its own.
func (m *model) sight(s sight) error {
	for at := m.seen[s.watch] + 1; at < uint64(len(m.events)); at++ {
		e := m.events[at]
		if e.kind == void || !strings.HasPrefix(e.key, watched[s.watch].prefix) {
			continue
		}
		if at != s.revision || e.kind != s.kind || e.key != s.key || s.sum != 0 && s.sum != e.sum {
			return fmt.Errorf("watch %d saw %d %v after %d, the next of its events is %d %v", s.watch, s.revision, s.event, m.seen[s.watch], at, e)
		}
		m.seen[s.watch] = at
		return nil
	}
	return fmt.Errorf("watch %d saw %d %v, which was never published", s.watch, s.revision, s.event)
}

// state is the live keys at a revision.
func (m *model) state(at uint64) map[string]uint64 {
	live := map[string]uint64{}
	for revision, e := range m.events[:at+1] {
		switch e.kind {
		case "created", "updated":
			live[e.key] = uint64(revision)
		case "deleted":
			delete(live, e.key)
		}
	}
	return live
}

// compare checks a restarted store. whole says that the group in flight is there. planned: every write in flight is
// known; else what is beyond the published must only be whole in itself.
func (m *model) compare(st *store.Store, in inFlight, planned bool) (whole bool, err error) {
	published := m.last()
	current, compacted := st.CurrentRevision(), st.CompactedRevision()
	if current < published {
		return false, fmt.Errorf("the store is at revision %d, %d was published", current, published)
	}
	if compacted > m.compacted {
		return false, fmt.Errorf("the store is compacted to %d, nobody asked for more than %d", compacted, m.compacted)
	}
	after := max(compacted, 1)
	found := map[uint64]event{}
	seen, err := st.Replay(after, 0, nil, func(e *store.Event) bool {
		found[e.Revision] = event{e.Type.String(), e.Key, e.PreviousRevision, sum(e.Value)}
		return true
	})
	if err != nil || seen != current {
		return false, fmt.Errorf("replaying from %d to %d came to %d: %w", after, current, seen, err)
	}
	for revision := after + 1; revision <= published; revision++ {
		e, there := found[revision]
		if want := m.events[revision]; want.kind == void && there || want.kind != void && e != want {
			return false, fmt.Errorf("revision %d of %d published: there is %v, published was %v", revision, published, e, want)
		}
	}
	kept := 0
	for revision := published + 1; revision <= current; revision++ {
		e, there := found[revision]
		if !there {
			m.events = append(m.events, event{kind: void})
			m.voids++
			continue
		}
		if p, ok := in.flight[revision]; planned && (!ok || p != e) {
			return false, fmt.Errorf("revision %d: there is %v, planned was %v", revision, e, p)
		}
		kept++
		m.events = append(m.events, e)
	}
	if planned && kept != 0 && kept != len(in.flight) {
		return false, fmt.Errorf("%d of the %d writes of the group in flight are there", kept, len(in.flight))
	}
	return kept > 0, m.compareState(st, 0)
}

// compareState compares the live keys and their values at a revision, 0: the current one.
func (m *model) compareState(st *store.Store, at uint64) error {
	p, err := st.Snapshot(at)
	if err != nil {
		return fmt.Errorf("state at %d: %w", at, err)
	}
	want := m.state(p.Revision())
	got := map[string]uint64{}
	var failure error
	err = p.Ascend("/", "", func(i *store.Item) bool {
		kv, err := i.Load()
		if err != nil {
			failure = err
			return false
		}
		got[i.Key] = kv.Revision
		if e := m.events[kv.Revision]; e.key != i.Key || e.sum != sum(kv.Value) {
			failure = fmt.Errorf("state at %d: key %s has the value of revision %d, which is another one than %v", p.Revision(), i.Key, kv.Revision, e)
		}
		return failure == nil
	})
	if err := errors.Join(err, failure); err != nil {
		return err
	}
	if !maps.Equal(got, want) {
		for key := range want {
			if got[key] != want[key] {
				return fmt.Errorf("state at %d: key %s is at revision %d, want %d", p.Revision(), key, got[key], want[key])
			}
		}
		for key := range got {
			if _, ok := want[key]; !ok {
				return fmt.Errorf("state at %d: key %s is there at revision %d and should not be", p.Revision(), key, got[key])
			}
		}
	}
	return nil
}

// add takes a write of the parent's own into the model.
func (m *model) add(revision uint64, st *store.Store) error {
	_, err := st.Replay(revision-1, 0, nil, func(e *store.Event) bool {
		m.events = append(m.events, event{e.Type.String(), e.Key, e.PreviousRevision, sum(e.Value)})
		return true
	})
	if err == nil && m.last() != revision {
		err = fmt.Errorf("revision %d is not in the history", revision)
	}
	return err
}

// former compares the state at some former revisions.
func (m *model) former(st *store.Store, rng *rand.Rand) error {
	lowest := max(st.CompactedRevision(), 1)
	for range 4 {
		if err := m.compareState(st, lowest+rng.Uint64N(m.last()-lowest+1)); err != nil {
			return err
		}
	}
	return nil
}

// resume lets each watch go on from its last revision until it has everything.
func (m *model) resume(ctx context.Context, b *bus.Bus, all bool) error {
	for i, w := range watched {
		if i > 0 && !all {
			break
		}
		s, err := b.Subscribe(bus.Options{Key: w.prefix, Recursive: true, After: m.seen[i], Buffer: w.buffer})
		if err != nil {
			return fmt.Errorf("watch %d resumes from %d: %w", i, m.seen[i], err)
		}
		err = func() error {
			defer s.Close()
			for {
				events, progress, err := s.Take()
				if err != nil {
					return fmt.Errorf("watch %d resumes from %d: %w", i, m.seen[i], err)
				}
				for _, e := range events {
					if err := m.sight(sight{i, e.Revision, event{kind: e.Type.String(), key: e.Key, sum: sum(e.Value)}}); err != nil {
						return fmt.Errorf("resumed: %w", err)
					}
				}
				if progress >= m.last() {
					break
				}
				select {
				case <-s.Wake():
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			rest := slices.IndexFunc(m.events[m.seen[i]+1:], func(e event) bool { return e.kind != void && strings.HasPrefix(e.key, w.prefix) })
			if rest >= 0 {
				return fmt.Errorf("watch %d has come to the end and missed revision %d", i, m.seen[i]+1+uint64(rest))
			}
			m.seen[i] = m.last()
			return nil
		}()
		if err != nil {
			return err
		}
	}
	if !all {
		for i := range m.seen {
			m.seen[i] = m.last()
		}
	}
	return nil
}
