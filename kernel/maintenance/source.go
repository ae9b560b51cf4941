package maintenance

import (
	"context"
	"fmt"
	"io"
	"time"

	"pintle.dev/pintle/kernel/bus"
	"pintle.dev/pintle/kernel/store"
)

// Source is a store to look after: a running kernel's or a directory's.
type Source interface {
	// Where says what it is, for a person.
	Where() string
	Stats(ctx context.Context) (Stats, error)
	// Compact drops history and returns what is kept afterwards.
	Compact(ctx context.Context, r CompactRequest) (Compacted, error)
	// Get reads a key as of a revision, 0: the current one.
	Get(ctx context.Context, key string, revision uint64) (Value, error)
	// History lists the latest versions of a key that are kept, at most limit, the latest first.
	History(ctx context.Context, key string, limit int) ([]Value, error)
	// Backup writes a backup to w. progress is told of records and bytes; it may be nil.
	Backup(ctx context.Context, r BackupRequest, w io.Writer, progress func(done, total int64)) (Backup, error)
	// Verify reads everything. progress may be nil.
	Verify(ctx context.Context, progress func(step string, done, total int64)) (store.VerifyReport, error)
	Close() error
}

// Stats is what a store holds and takes.
type Stats struct {
	// Store is its id, Where it is.
	Store             string     `json:"store"`
	Where             string     `json:"where"`
	Revision          uint64     `json:"revision"`
	CompactedRevision uint64     `json:"compactedRevision"`
	Keys              int64      `json:"keys"`
	Bytes             int64      `json:"bytes"`
	Resources         []Resource `json:"resources"`
	Disk              Disk       `json:"disk"`
	// QueueDepth is the number of writes that wait.
	QueueDepth int `json:"queueDepth"`
	// HeldRevision is what a backup under way keeps from compaction.
	HeldRevision uint64 `json:"heldRevision,omitempty"`
	// Bus is nil offline.
	Bus *bus.Stats `json:"bus,omitempty"`
}

// Resource is what one resource has in the store.
type Resource struct {
	Group    string `json:"group"`
	Resource string `json:"resource"`
	Objects  int64  `json:"objects"`
	Bytes    int64  `json:"bytes"`
}

// Disk is what the store's files take, in bytes.
type Disk struct {
	Tables    int64 `json:"tables"`
	Memtables int64 `json:"memtables"`
	ValueLog  int64 `json:"valueLog"`
	Other     int64 `json:"other"`
	// TablesByLevel is their number.
	TablesByLevel []int `json:"tablesByLevel"`
	// Free is what the file system has left, MinFree what must be for a write to be accepted.
	Free     uint64 `json:"free"`
	MinFree  uint64 `json:"minFree"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// CompactRequest says up to where history is dropped: one of the two.
type CompactRequest struct {
	Revision uint64 `json:"revision,omitempty"`
	// Keep is the age up to which revisions are kept, as of a running kernel.
	Keep time.Duration `json:"keep,omitempty"`
}

// Compacted is the outcome of a compaction.
type Compacted struct {
	Revision          uint64 `json:"revision"`
	CompactedRevision uint64 `json:"compactedRevision"`
	// Requested is the revision that was asked for, perhaps by an age.
	Requested uint64 `json:"requested"`
	// HeldRevision is set when a backup under way keeps the rest.
	HeldRevision uint64 `json:"heldRevision,omitempty"`
	// FreedBytes is what the database takes less of the disk; GarbageBytes is what is still there of large values that
	// were deleted or overwritten.
	FreedBytes   int64 `json:"freedBytes"`
	GarbageBytes int64 `json:"garbageBytes"`
}

// Value is a key at a revision.
type Value struct {
	Key string `json:"key"`
	// Revision is that of the commit which wrote it.
	Revision uint64 `json:"revision"`
	// Type is created, updated or deleted; in a list of versions only.
	Type string `json:"type,omitempty"`
	// Oldest marks the oldest version kept, of which it is not known what it did.
	Oldest bool `json:"oldest,omitempty"`
	// Expires is when the key ends.
	Expires *time.Time `json:"expires,omitempty"`
	// Value is what is stored; nil for a deletion.
	Value []byte `json:"value,omitempty"`
}

// BackupRequest says what a backup holds.
type BackupRequest struct {
	Incremental bool
	Since       uint64
	// Store is the id of the store that the former backup is of, empty when it is not known.
	Store   string
	History bool
}

// Backup is what was written.
type Backup struct {
	store.BackupHeader
	store.BackupEnd
	// Size is that of the file in bytes.
	Size int64 `json:"size"`
}

// compactedOf gives back the room of what was compacted, and says what came of it.
func compactedOf(ctx context.Context, s *store.Store, requested uint64) (Compacted, error) {
	r, err := s.Reclaim(ctx)
	if err != nil {
		return Compacted{}, fmt.Errorf("compacted to revision %d; giving back the room: %w", s.CompactedRevision(), err)
	}
	return Compacted{
		Revision: s.CurrentRevision(), CompactedRevision: s.CompactedRevision(), Requested: requested,
		FreedBytes: r.Freed, GarbageBytes: r.Garbage,
	}, nil
}

func disk(st store.Stats) Disk {
	d := st.Disk
	return Disk{
		Tables: d.Tables, Memtables: d.Memtables, ValueLog: d.ValueLog, Other: d.Other, TablesByLevel: st.Levels,
		Free: d.Free, MinFree: d.Needed, ReadOnly: d.ReadOnly,
	}
}

// statsOf asks a store.
func statsOf(s *store.Store, where string) (Stats, error) {
	st, err := s.Stats()
	if err != nil {
		return Stats{}, err
	}
	return Stats{
		Store: st.ID, Where: where, Revision: st.Revision, CompactedRevision: st.Compacted, Keys: st.Keys, Bytes: st.Bytes,
		Resources: resourcesOf(s), Disk: disk(st), QueueDepth: st.Queue, HeldRevision: st.Held,
	}, nil
}

// maxVersions bounds a history whatever is asked for.
const maxVersions = 1000

func historyOf(s *store.Store, key string, limit int) (out []Value, err error) {
	if limit <= 0 || limit > maxVersions {
		limit = maxVersions
	}
	err = s.History(key, func(v store.Version) bool {
		out = append(out, value(v.KV))
		last := &out[len(out)-1]
		last.Type, last.Oldest = v.Type.String(), v.Oldest
		return len(out) < limit
	})
	return out, err
}

func value(kv store.KV) Value {
	v := Value{Key: kv.Key, Revision: kv.Revision, Value: kv.Value}
	if kv.Expires != 0 {
		t := time.UnixMilli(kv.Expires).UTC()
		v.Expires = &t
	}
	return v
}

func getOf(s *store.Store, key string, revision uint64) (Value, error) {
	kv, err := func() (store.KV, error) {
		if revision != 0 {
			return s.GetAt(key, revision)
		}
		kv, _, err := s.Get(key)
		return kv, err
	}()
	return value(kv), err
}

func backupOf(ctx context.Context, s *store.Store, r BackupRequest, w io.Writer, progress func(records, bytes int64)) (store.BackupHeader, store.BackupEnd, error) {
	return s.Backup(ctx, w, store.BackupOptions{
		Incremental: r.Incremental, Since: r.Since, Store: r.Store, History: r.History, Progress: progress,
	})
}
