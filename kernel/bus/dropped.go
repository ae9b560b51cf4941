package bus

import (
	"log/slog"
	"maps"
	"sync"
	"time"
)

const (
	// maxKinds bounds the kinds that are counted each; further ones are counted together, as otherKind.
	maxKinds  = 500
	otherKind = "other"
	// logsASecond bounds the lines of the log: a thousand subscribers may fall behind at once, and the one who publishes
	// must not wait for a log.
	logsASecond = 10
)

// dropped knows who was dropped.
type dropped struct {
	mu     sync.Mutex
	kinds  map[string]uint64
	second int64
	logged int
	silent uint64
}

// note counts a subscription under its kind and names it in the log.
func (d *dropped) note(log *slog.Logger, s *Subscription, message string, args ...any) {
	d.mu.Lock()
	kind := s.options.Kind
	if _, ok := d.kinds[kind]; !ok && len(d.kinds) >= maxKinds {
		kind = otherKind
	}
	if d.kinds == nil {
		d.kinds = map[string]uint64{}
	}
	d.kinds[kind]++
	if now := time.Now().Unix(); now != d.second {
		d.second, d.logged = now, 0
	}
	if d.logged++; d.logged > logsASecond {
		d.silent++
		d.mu.Unlock()
		return
	}
	silent := d.silent
	d.silent = 0
	d.mu.Unlock()

	args = append(args, "key", s.options.Key, "kind", s.options.Kind)
	if s.options.Topic != "" {
		args = append(args, "topic", s.options.Topic)
	}
	if s.options.Who != nil {
		args = append(args, "who", s.options.Who())
	}
	if silent > 0 {
		args = append(args, "others_not_logged", silent)
	}
	log.Warn(message, args...)
}

// byKind are the counts as of now.
func (d *dropped) byKind() map[string]uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.kinds)
}
