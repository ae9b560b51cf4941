package store

import (
	"fmt"
	"hash/maphash"

	badger "github.com/dgraph-io/badger/v4"
)

// slot is what the history says of a revision.
type slot struct {
	key      uint64 // hash, 0 for a void one
	previous uint64
	kind     EventType
	seen     bool
}

// hash is never 0.
func (v *verification) hash(key string) uint64 { return maphash.String(v.seed, key) | 1 }

// data compares history, values and index between the compacted revision, which is held, and the current one.
func (v *verification) data(compacted uint64) error {
	tree, current := v.s.index.snapshot()
	v.Revision, v.Compacted = current, compacted
	slots, err := v.history(compacted, current)
	if err != nil {
		return err
	}
	txn := v.s.db.NewTransactionAt(current, false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{Prefix: []byte{spaceData}, AllVersions: true})
	defer it.Close()
	var indexed int64
	total := int64(tree.Len())
	var key string
	var raw []rawVersion
	var latest KV
	flush := func() {
		if key == "" {
			return
		}
		live := v.key(key, raw, compacted, slots)
		e, ok := tree.Get(entry{key: key})
		if ok {
			indexed++
		}
		switch {
		case ok && !live:
			v.found(Problem{Step: VerifyValues, Key: key, Revision: e.revision, Detail: "the index has it, the disk does not"})
		case live && !ok:
			v.found(Problem{Step: VerifyValues, Key: key, Detail: "it is on disk and not in the index"})
		case live && latest.Key == key && (e.revision != latest.Revision || e.size != int64(len(latest.Value))):
			v.found(Problem{Step: VerifyValues, Key: key, Revision: latest.Revision,
				Detail: fmt.Sprintf("the index says revision %d with %d bytes, the disk has %d bytes", e.revision, e.size, len(latest.Value))})
		}
		if live && latest.Key == key {
			v.Keys++
			v.Bytes += int64(len(latest.Value))
			if v.o.Check != nil {
				if err := v.o.Check(latest); err != nil {
					v.found(Problem{Step: VerifyObjects, Key: key, Revision: latest.Revision, Detail: err.Error()})
				}
			}
		}
		if v.Keys%512 == 0 {
			v.o.Progress(VerifyValues, min(v.Keys, total), total)
		}
	}
	err = safely(func() error {
		for it.Rewind(); it.Valid(); it.Next() {
			item := it.Item()
			if k := string(item.Key()[1:]); k != key {
				flush()
				if err := v.ctx.Err(); err != nil {
					return err
				}
				key, raw, latest = k, raw[:0], KV{}
			}
			if n := len(raw); n > 0 && raw[n-1].version <= compacted {
				continue // waits for Badger's compaction
			}
			r := rawVersion{item.Version(), item.IsDeletedOrExpired(), item.UserMeta()&markCopied != 0}
			raw = append(raw, r)
			if r.deleted {
				continue
			}
			v.Versions++
			kv, err := v.s.itemKV(key, item)
			if err != nil {
				v.found(Problem{Step: VerifyValues, Key: key, Revision: r.version, Detail: err.Error()})
				continue
			}
			if len(raw) == 1 {
				latest = kv
			}
		}
		flush()
		return nil
	})
	if ctxErr := v.ctx.Err(); ctxErr != nil {
		return ctxErr
	}
	if err != nil {
		v.found(Problem{Step: VerifyValues, Key: key, Detail: "reading on from here failed: " + err.Error()})
		return nil
	}
	if indexed != total {
		v.found(Problem{Step: VerifyValues, Detail: fmt.Sprintf("%d keys of the index are missing on disk", total-indexed)})
	}
	v.o.Progress(VerifyValues, total, total)
	return v.unseen(compacted, current, slots)
}

// history reads what each revision did. A gap is a problem.
func (v *verification) history(compacted, current uint64) ([]slot, error) {
	slots := make([]slot, current-compacted)
	next := compacted + 1
	total := int64(len(slots))
	err := safely(func() error {
		return v.s.groups(compacted, current, func(revision uint64, c change) error {
			if revision != next && (compacted != 0 || next != 1) {
				v.found(Problem{Step: VerifyHistory, Revision: next, Detail: fmt.Sprintf("the history goes on at %d", revision)})
			}
			if revision < next {
				return nil
			}
			next = revision + 1
			v.Changes++
			sl := &slots[revision-compacted-1]
			sl.kind, sl.previous = c.kind, c.previous
			if c.kind != Void {
				sl.key = v.hash(c.key)
			}
			if v.Changes%4096 == 0 {
				v.o.Progress(VerifyHistory, v.Changes, total)
			}
			return v.ctx.Err()
		})
	})
	if ctxErr := v.ctx.Err(); ctxErr != nil {
		return nil, ctxErr
	}
	switch {
	case err != nil:
		v.found(Problem{Step: VerifyHistory, Revision: next, Detail: err.Error()})
	case next <= current && current > 1:
		v.found(Problem{Step: VerifyHistory, Revision: next, Detail: fmt.Sprintf("the history ends here, the store is at %d", current)})
	}
	v.o.Progress(VerifyHistory, total, total)
	return slots, nil
}

// key holds the entries of a key against the history, and says whether it has a value.
func (v *verification) key(key string, raw []rawVersion, compacted uint64, slots []slot) (live bool) {
	versions := effective(key, raw, compacted)
	hash := v.hash(key)
	for i, version := range versions {
		if version.Oldest {
			continue
		}
		previous := uint64(0)
		if version.Type != Created {
			// What a key had before is the next older one; a copy stands for what it repeats.
			previous = versions[i+1].Revision
		}
		s := &slots[version.Revision-compacted-1]
		switch {
		case s.key != hash || s.kind != version.Type:
			v.found(Problem{Step: VerifyValues, Key: key, Revision: version.Revision,
				Detail: fmt.Sprintf("it was %s by this revision on disk, the history says otherwise", version.Type)})
		case s.previous != previous && !(i+1 < len(versions) && versions[i+1].Oldest):
			v.found(Problem{Step: VerifyValues, Key: key, Revision: version.Revision,
				Detail: fmt.Sprintf("its former revision is %d on disk and %d in the history", previous, s.previous)})
		}
		s.seen = s.seen || s.key == hash
	}
	return len(versions) > 0 && versions[0].Type != Deleted
}

// unseen names revisions of the history of which the disk has nothing.
func (v *verification) unseen(compacted, current uint64, slots []slot) error {
	missing := false
	for i := range slots {
		if s := &slots[i]; s.key != 0 && !s.seen {
			missing = true
		}
	}
	if !missing {
		return nil
	}
	return v.s.groups(compacted, current, func(revision uint64, c change) error {
		if s := &slots[revision-compacted-1]; s.key != 0 && !s.seen {
			v.found(Problem{Step: VerifyValues, Key: c.key, Revision: revision, Detail: fmt.Sprintf("it was %s by this revision, which is missing on disk", c.kind)})
		}
		return v.ctx.Err()
	})
}
