package store

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	badger "github.com/dgraph-io/badger/v4"
)

// Config says where and how a store keeps its data. The zero value of a field means its default.
type Config struct {
	// Dir is the directory of the database. It is made (mode 0700) when absent. Required.
	Dir string
	// MemTableBytes is the size of Badger's in-memory table and of its log. A smaller one costs less memory and
	// flushes more often. Default 16 MiB, at least 4 MiB.
	MemTableBytes int64
	// MaxValueBytes is the largest value accepted. Default 3 MiB, which is the API server's limit of a request body.
	MaxValueBytes int64
	// MaxGroup is the largest number of writes in one sync. Default 512.
	MaxGroup int
	// MinFreeBytes is the free disk space below which writes are refused. Steps to a delete may use half of it, deletes
	// and compaction, which make room, all, and up to 5/8 of it more in SpareFile. Default 64 MiB. Negative switches the watch off.
	MinFreeBytes int64
	// Retention is how long the history of a revision is kept, at the least, before compaction drops it. Default 5
	// minutes, as kube-apiserver's etcd-compaction-interval. Negative switches compaction by age off.
	Retention time.Duration
	// MaxHistory is the number of revisions kept, whatever their age. Default 500,000. Negative: no limit.
	MaxHistory int64
	// GCInterval is the time between two collections of the value log. Default 1 minute.
	GCInterval time.Duration
	// MaxGarbageBytes is how much of the value log (values of 512 KiB and more) may be superseded, by revisions that are
	// compacted, before the memory table is written out for the sake of finding it. Default 256 MiB.
	MaxGarbageBytes int64
	// Keys encrypt everything in Dir, the first of them what is written; the others are former ones, of which the
	// database may be. 16, 24 or 32 bytes each, or none for no encryption. Default: no encryption. See ReadKeys.
	Keys [][]byte
	// Dictionaries compress values of keys by their prefix: each is a text like such values, of up to 64 KiB, whose
	// later parts are found best. The database keeps it in the clear for good (encrypted as all else, with Keys), so it
	// must not be made of what somebody may want to be deleted. Default: no compression.
	Dictionaries map[string][]byte
	// Logger receives Badger's and the store's messages. Default: none.
	Logger *slog.Logger

	// tune changes Badger's options in tests.
	tune func(badger.Options) badger.Options
	// diskUsage replaces the question to the file system in tests.
	diskUsage func(dir string) (free uint64, readOnly bool, err error)
}

const (
	minMemTableBytes  = 4 << 20
	maxInlineValue    = 512 << 10
	maxKeyBytes       = 4096
	historyTicks      = 10
	minCompactionTick = time.Second
)

func (c Config) withDefaults() (Config, error) {
	if c.Dir == "" {
		return c, errors.New("store: Dir is empty: name the data directory")
	}
	if err := c.checkKeys(); err != nil {
		return c, err
	}
	if c.MemTableBytes == 0 {
		c.MemTableBytes = 16 << 20
	}
	if c.MemTableBytes < minMemTableBytes {
		return c, fmt.Errorf("store: MemTableBytes %d is below the smallest of %d", c.MemTableBytes, minMemTableBytes)
	}
	if c.MaxValueBytes == 0 {
		c.MaxValueBytes = 3 << 20
	}
	if c.MaxGroup <= 0 {
		c.MaxGroup = 512
	}
	if c.MinFreeBytes == 0 {
		c.MinFreeBytes = 64 << 20
	}
	if c.Retention == 0 {
		c.Retention = 5 * time.Minute
	}
	if c.MaxHistory == 0 {
		c.MaxHistory = 500_000
	}
	if c.GCInterval <= 0 {
		c.GCInterval = time.Minute
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.MaxGarbageBytes <= 0 {
		c.MaxGarbageBytes = 256 << 20
	}
	if c.tune == nil {
		c.tune = func(o badger.Options) badger.Options { return o }
	}
	if c.diskUsage == nil {
		c.diskUsage = diskUsage
	}
	return c, nil
}
