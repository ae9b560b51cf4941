package store

import (
	"slices"

	badger "github.com/dgraph-io/badger/v4"
)

// rawVersion is one entry of a key on disk.
type rawVersion struct {
	version uint64
	deleted bool
	copied  bool
}

// rawVersions lists the entries of a data key above a revision and the newest one at or below it, the latest first.
func rawVersions(txn *badger.Txn, key []byte, compacted uint64) ([]rawVersion, error) {
	it := txn.NewKeyIterator(key, badger.IteratorOptions{AllVersions: true})
	defer it.Close()
	var out []rawVersion
	for it.Rewind(); it.Valid(); it.Next() {
		item := it.Item()
		out = append(out, rawVersion{item.Version(), item.IsDeletedOrExpired(), item.UserMeta()&markCopied != 0})
		if item.Version() <= compacted {
			break
		}
	}
	return out, nil
}

// effective leaves out what undoing a torn group left: copies of a former content, and deletes of nothing.
func effective(key string, raw []rawVersion, compacted uint64) []Version {
	var out []Version
	present := false
	for _, r := range slices.Backward(raw) {
		if r.copied && present {
			continue
		}
		v := Version{KV: KV{Key: key, Revision: r.version}, Oldest: r.version <= compacted}
		switch {
		case r.deleted && !present:
			continue
		case r.deleted:
			v.Type = Deleted
		case present:
			v.Type = Updated
		default:
			v.Type = Created
		}
		present = !r.deleted
		out = append(out, v)
	}
	slices.Reverse(out)
	return out
}
