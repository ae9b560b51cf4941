package conntrack

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"sync"

	"golang.org/x/sys/unix"
)

// Usage says how full the kernel's table is, for the process's network.
type Usage struct {
	// Entries are the flows that are tracked, Limit how many may be.
	Entries, Limit uint32
	// Dropped counts packets that began a flow and were dropped since there was no room, or
	// no memory, for it.
	Dropped uint64
}

// What the kernel has for questions about the table, and the attributes of its answers.
const (
	statisticsOfProcessor = 4 // IPCTNL_MSG_CT_GET_STATS_CPU
	statistics            = 5 // IPCTNL_MSG_CT_GET_STATS
	statisticsDropped     = 10
	statisticsEntries     = 1
	statisticsLimit       = 2
)

// ReadUsage asks the kernel. It needs root.
func ReadUsage() (Usage, error) {
	var u Usage
	read := func(operation, flags int, each func(kind uint16, number uint32)) error {
		list, err := request(unix.AF_UNSPEC, operation, flags, nil).Execute(unix.NETLINK_NETFILTER, 0)
		if err != nil {
			return fmt.Errorf("read how full the table of tracked connections is: %w", err)
		}
		for _, message := range list {
			if len(message) < headerSize {
				continue
			}
			attributes(message[headerSize:], func(kind uint16, data []byte) {
				if len(data) == 4 {
					each(kind, binary.BigEndian.Uint32(data))
				}
			})
		}
		return nil
	}
	if err := read(statistics, unix.NLM_F_ACK, func(kind uint16, number uint32) {
		switch kind {
		case statisticsEntries:
			u.Entries = number
		case statisticsLimit:
			u.Limit = number
		}
	}); err != nil {
		return u, err
	}
	err := read(statisticsOfProcessor, unix.NLM_F_DUMP, func(kind uint16, number uint32) {
		if kind == statisticsDropped {
			u.Dropped += uint64(number)
		}
	})
	return u, err
}

// Watch says in a log when the kernel's table is full, so that nobody looks for the fault in a
// service. The zero Watch is ready.
type Watch struct {
	mu   sync.Mutex
	last *Usage // nil: before the first look
	full bool
	read func() (Usage, error) // nil: the kernel's; tests have their own
}

// Look is called once a period. Packets that were dropped since the last look are said each time;
// that none was, once.
func (w *Watch) Look(log *slog.Logger) {
	w.mu.Lock()
	defer w.mu.Unlock()
	read := w.read
	if read == nil {
		read = ReadUsage
	}
	now, err := read()
	if err != nil {
		log.Debug("it is not known how full the table of tracked connections is", "error", err)
		return
	}
	var dropped uint64 // those of before the first look are nobody's news
	if w.last != nil && now.Dropped >= w.last.Dropped {
		dropped = now.Dropped - w.last.Dropped
	}
	full := dropped > 0
	switch {
	case full:
		log.Warn("new connections are dropped: the kernel's table of tracked connections has no room; those that are there go on. Raise net.netfilter.nf_conntrack_max, or find who opens so many",
			"dropped", dropped, "entries", now.Entries, "limit", now.Limit)
	case w.full:
		log.Info("the kernel's table of tracked connections has room again", "entries", now.Entries, "limit", now.Limit)
	}
	w.last, w.full = &now, full
}
