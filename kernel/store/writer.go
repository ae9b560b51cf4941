package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	badger "github.com/dgraph-io/badger/v4"
)

// AnyRevision as a Write's Expect takes the key as it is.
const AnyRevision uint64 = math.MaxUint64

// Write asks for one change of one key.
type Write struct {
	Key string
	// Value is kept, not copied: it may not be changed any more.
	Value []byte
	// Delete removes the key; Value is ignored.
	Delete bool
	// MakesRoom says that the write is a step on the way to the key's delete: it has a part of the reserve of disk when
	// others are refused, unless the value grows by it.
	MakesRoom bool
	// Expect is the revision of the key's current value. 0: the key must have none. AnyRevision: whatever it is (a
	// Delete still needs a value to delete).
	Expect uint64
	// TTL is the time to live in seconds, after which the key is deleted by a commit of its own. 0: for ever.
	TTL int64
	// Attachment is handed on in the Event.
	Attachment any
	// Topics are handed on in the Event: subscribers of a topic see it only when the topic is among them. Nil means
	// unknown, and every subscriber of the key sees it.
	Topics []string
	// OnRevision, when set, is called by the writer with the revision given to this write, before anyone can see it
	// and before it is known to be durable. It must return at once.
	OnRevision func(revision uint64)
}

// request is a Write on its way through the writer.
type request struct {
	ctx context.Context
	Write
	revision uint64
	err      error
	room     room // set with revision
	// next is one that was handed over together with this one.
	next *request
	// answered is set when revision and err are.
	answered atomic.Bool
	*answers
}

// answers are those of requests that were handed over together: done is closed with the last.
type answers struct {
	left atomic.Int64
	done chan struct{}
}

func newAnswers(n int) *answers {
	a := &answers{done: make(chan struct{})}
	a.left.Store(int64(n))
	return a
}

// answer tells whoever waits that the writer is done with the request.
func (r *request) answer() {
	r.answered.Store(true)
	if r.left.Add(-1) == 0 {
		close(r.done)
	}
}

// Commit does one write and returns its revision when it is durable and visible. Errors: *ConflictError,
// *TooLargeError, *DiskError, ErrClosed, or ctx's, in which case the write may still happen.
func (s *Store) Commit(ctx context.Context, w Write) (revision uint64, err error) {
	begin := time.Now()
	if err := s.check(&w); err != nil {
		return 0, err
	}
	r := &request{ctx: ctx, Write: w, answers: newAnswers(1)}
	if err := s.handOver(ctx, r); err != nil {
		return 0, err
	}
	if err := s.answered(ctx, r); err != nil {
		return 0, err
	}
	s.meters.commit.Observe(time.Since(begin).Seconds())
	return r.revision, nil
}

// CommitAll does writes that have nothing to do with each other, as Commit does one, and waits for all of them. The
// errors are in the order of the writes.
func (s *Store) CommitAll(ctx context.Context, writes []Write) []error {
	begin := time.Now()
	failures := make([]error, len(writes))
	requests := make([]request, len(writes)) // one allocation for all
	of := newAnswers(0)
	var first, last *request
	for i := range writes {
		if failures[i] = s.check(&writes[i]); failures[i] != nil {
			continue
		}
		r := &requests[i]
		r.ctx, r.Write, r.answers = ctx, writes[i], of
		of.left.Add(1)
		if first == nil {
			first = r
		} else {
			last.next = r
		}
		last = r
	}
	if first == nil {
		return failures
	}
	refused := s.handOver(ctx, first)
	for i := range requests {
		r := &requests[i]
		if r.answers == nil {
			continue
		}
		if failures[i] = refused; refused == nil {
			failures[i] = s.answered(ctx, r)
		}
		if failures[i] == nil {
			s.meters.commit.Observe(time.Since(begin).Seconds())
		}
	}
	return failures
}

// check refuses a write that could never be, and makes it what the writer takes.
func (s *Store) check(w *Write) error {
	if len(w.Key) == 0 || len(w.Key) > maxKeyBytes {
		return &TooLargeError{Key: w.Key, Size: int64(len(w.Key)), Limit: maxKeyBytes}
	}
	if int64(len(w.Value)) > s.cfg.MaxValueBytes {
		return &TooLargeError{Key: w.Key, Size: int64(len(w.Value)), Limit: s.cfg.MaxValueBytes}
	}
	if w.Delete {
		w.Value, w.TTL = nil, 0
	}
	return nil
}

// handOver gives the writer a request and those that follow it.
func (s *Store) handOver(ctx context.Context, r *request) error {
	n := int64(0)
	for each := r; each != nil; each = each.next {
		n++
	}
	s.waiting.Add(n)
	select {
	case s.requests <- r:
		return nil
	case <-ctx.Done():
		s.waiting.Add(-n)
		return ctx.Err()
	case <-s.stopped:
		s.waiting.Add(-n)
		return ErrClosed
	}
}

// answered waits for what became of a write.
func (s *Store) answered(ctx context.Context, r *request) error {
	var otherwise error
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		otherwise = ctx.Err()
	case <-s.stopped:
		// The writer answers what it took before it stops.
		otherwise = ErrClosed
	}
	if r.answered.Load() {
		return r.err
	}
	return otherwise
}

func (s *Store) runWriter(ctx context.Context) {
	defer s.stopOnce.Do(func() { close(s.stopped) })
	// A group stays well below Badger's largest transaction (15 % of the memory table), since it must be one.
	maxBytes := int(s.cfg.MemTableBytes / 16)
	group := make([]*request, 0, s.cfg.MaxGroup)
	var next *request // one that was handed over and has no group yet, and those that follow it
	for {
		if next == nil {
			select {
			case <-ctx.Done():
				return
			case next = <-s.requests:
			}
		}
		group = group[:0]
		bytes := 0
	fill:
		for {
			for ; next != nil; next = next.next {
				if len(group) == s.cfg.MaxGroup || bytes >= maxBytes {
					break fill
				}
				group = append(group, next)
				bytes += len(next.Value) + len(next.Key)
			}
			select {
			case next = <-s.requests:
			default:
				break fill
			}
		}
		s.waiting.Add(-int64(len(group)))
		failed := s.commitGroup(group)
		clear(group)
		if failed {
			return
		}
	}
}

// commitGroup answers every request of the group. failed says that the store can write no more.
func (s *Store) commitGroup(group []*request) (failed bool) {
	err := s.tryGroup(group)
	// What makes room does not wait for the rest, which is refused.
	for of := roomForSteps; of <= roomForDeletes && isShort(err); of++ {
		apart := make([]*request, 0, len(group))
		rest := make([]*request, 0, len(group))
		for _, r := range group {
			if r.revision != 0 && r.room >= of {
				apart = append(apart, r)
			} else {
				rest = append(rest, r)
			}
		}
		if len(apart) == 0 {
			break
		}
		if len(rest) == 0 {
			continue
		}
		s.answerGroup(rest, err)
		group, err = apart, s.tryGroup(apart)
	}
	s.answerGroup(group, err)
	return len(s.failed) > 0
}

// tryGroup writes what can be of a group, or nothing.
func (s *Store) tryGroup(group []*request) error {
	for _, r := range group {
		r.revision = 0
	}
	g := s.plan(group)
	var err error
	if len(g.changes) > 0 {
		begin := time.Now()
		err = s.writeGroup(g)
		s.meters.wrote(begin, len(g.changes), err)
		s.sayRefusals(err, g.room != roomForWrites)
	}
	if err == nil && len(g.changes) > 0 {
		s.index.apply(g.pending, g.first+uint64(len(g.changes))-1)
		for i := range g.pending {
			if e := &g.pending[i]; e.expires != 0 && !e.replaced {
				s.expiries.push(expiry{at: e.expires, key: e.key, revision: e.revision})
			}
		}
		s.publish(g.events)
	}
	return err
}

// answerGroup answers the requests of a group that err became of.
func (s *Store) answerGroup(group []*request, err error) {
	for _, r := range group {
		// A refusal counts only when the group it was measured against is there.
		if err != nil && (r.revision != 0 || errors.As(r.err, new(*ConflictError))) {
			r.revision, r.err = 0, err
		}
		r.answer()
	}
}

// stepBytes is how much a value may grow by a step to its delete: by the time of the delete, and by its manager.
const stepBytes = 4 << 10

// group is what a commit changes.
type group struct {
	first   uint64
	changes []change
	events  []*Event
	entries []badger.Entry // by change; that of a delete is empty
	pending []pending      // by change
	room    room           // that of the request that needs most
	// packed and keys are the memory of what entries have.
	packed, keys []byte
}

// plan checks each request against the index and those before it, gives out revisions and refuses the rest.
func (s *Store) plan(requests []*request) *group {
	g := &group{
		changes: make([]change, 0, len(requests)),
		events:  make([]*Event, 0, len(requests)),
		entries: make([]badger.Entry, 0, len(requests)),
		pending: make([]pending, 0, len(requests)),
		room:    roomForDeletes,
	}
	g.first = s.index.current() + 1
	events := make([]Event, len(requests)) // one allocation for all
	var latest map[string]int              // by key, the last change of it
	if len(requests) > 1 {
		bytes := 0
		for _, r := range requests {
			bytes += 1 + len(r.Key)
		}
		g.keys = make([]byte, 0, bytes)
		latest = make(map[string]int, len(requests))
	}
	revision := g.first
	var now int64
	for _, r := range requests {
		if r.err = r.ctx.Err(); r.err != nil {
			continue
		}
		var before pending
		former, again := latest[r.Key]
		if again {
			before = g.pending[former]
		} else {
			before.entry, _, before.there = s.index.get(r.Key)
		}
		if r.Expect != AnyRevision && r.Expect != before.revision || r.Delete && before.revision == 0 {
			s.meters.conflicts.Inc()
			r.err = &ConflictError{Key: r.Key, Expected: r.Expect, Current: before.revision}
			continue
		}
		after := pending{entry: entry{key: r.Key, revision: revision, size: int64(len(r.Value))}, there: before.there}
		if before.there {
			after.key = before.key
		}
		kind := Updated
		switch {
		case r.Delete:
			r.room = roomForDeletes
			kind, after.entry = Deleted, entry{key: after.key}
			g.entries = append(g.entries, badger.Entry{})
		default:
			if before.revision == 0 {
				kind = Created
			}
			if r.TTL > 0 {
				if now == 0 {
					now = time.Now().UnixMilli()
				}
				after.expires = now + 1000*r.TTL
			}
			s.addEntry(g, r, after.expires)
			if r.room = roomForWrites; r.MakesRoom && int64(len(r.Value)) <= before.size+stepBytes {
				r.room = roomForSteps
			}
		}
		g.room = min(g.room, r.room)
		e := &events[len(g.events)]
		*e = Event{
			Revision: revision, Type: kind, Key: r.Key, Value: r.Value,
			PreviousRevision: before.revision, Attachment: r.Attachment, Topics: r.Topics,
		}
		g.events = append(g.events, e)
		g.changes = append(g.changes, change{kind: kind, key: r.Key, previous: before.revision})
		if again {
			g.pending[former].replaced = true
		}
		if latest != nil {
			latest[r.Key] = len(g.pending)
		}
		g.pending = append(g.pending, after)
		s.supersede(before.entry)
		r.revision = revision
		if r.OnRevision != nil {
			r.OnRevision(revision)
		}
		revision++
	}
	return g
}

// addEntry adds what is stored for a value. Its bytes lie in the group's memory, or are the value itself.
func (s *Store) addEntry(g *group, r *request, expires int64) {
	begin := len(g.keys)
	g.keys = append(append(g.keys, spaceData), r.Key...)
	e := badger.Entry{Key: g.keys[begin:len(g.keys):len(g.keys)]}
	head := g.packed
	if expires != 0 {
		head = binary.BigEndian.AppendUint64(head, uint64(expires))
	}
	if packed, mark := s.dictionaries.pack(head, r.Key, r.Value); mark != 0 {
		e.Value, e.UserMeta = packed[len(g.packed):len(packed):len(packed)], mark
		if expires != 0 {
			e.UserMeta |= markExpires
		}
		g.packed = packed
	} else {
		e.Value, e.UserMeta = encodeValue(r.Value, expires, 0)
	}
	g.entries = append(g.entries, e)
}

// logBytes bounds what the group takes of the log, and of the memory table.
func (g *group) logBytes() (bytes int64) {
	for i := range g.changes {
		// The key is in the history, too.
		bytes += 2*int64(len(g.changes[i].key)) + entryBytes + int64(len(g.entries[i].Value))
	}
	return bytes + entryBytes
}

// writeGroup makes the group durable with one sync.
func (s *Store) writeGroup(g *group) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	bytes := g.logBytes()
	if err := s.reserveRoom(g.room, bytes); err != nil {
		return err
	}
	batch := s.db.NewManagedWriteBatch()
	defer batch.Cancel()
	err := func() error {
		for i := range g.entries {
			revision := g.first + uint64(i)
			var err error
			if g.changes[i].kind == Deleted {
				err = batch.DeleteAt(dataKey(g.changes[i].key), revision)
			} else {
				err = batch.SetEntryAt(&g.entries[i], revision)
			}
			if err != nil {
				return err
			}
		}
		last := g.first + uint64(len(g.changes)) - 1
		if err := batch.SetEntryAt(badger.NewEntry(historyKey(last), encodeGroup(g.first, g.changes)), last); err != nil {
			return err
		}
		return errors.Join(batch.Flush(), s.faults.failedSync())
	}()
	if err != nil {
		return s.fail(fmt.Errorf("revisions %d to %d: %w", g.first, g.first+uint64(len(g.changes))-1, err))
	}
	s.reserve.logged.Add(bytes)
	if err := s.mark.set(g.first + uint64(len(g.changes)) - 1); err != nil {
		s.log.Warn("noting the last durable revision failed", "error", err)
	}
	return nil
}

// fail ends the store, because after a failed write or sync nobody knows what is on disk: the kernel reports a failed
// sync once and takes the pages for clean, and Badger is left without a log to write to. The next start finds out.
func (s *Store) fail(err error) error {
	failure := &DiskError{Dir: s.cfg.Dir, Err: err}
	select {
	case s.failed <- failure:
		s.log.Error("the disk failed; the store stops", "error", failure)
	default:
	}
	return failure
}
