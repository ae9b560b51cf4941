package eventratelimit

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
)

// limit has a bucket for each key.
type limit struct {
	by     LimitType
	create func() flowcontrol.PassiveRateLimiter

	mu      sync.Mutex // two requests of one new key have one bucket
	buckets *lru.Cache
}

func newLimit(l Limit, now clock.PassiveClock) *limit {
	size := int(l.CacheSize)
	switch {
	case l.Type == Server:
		size = 1
	case size == 0:
		size = defaultCacheSize
	}
	return &limit{by: l.Type, buckets: lru.New(size), create: func() flowcontrol.PassiveRateLimiter {
		return flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(float32(l.QPS), int(l.Burst), now)
	}}
}

// bucket of a key.
func (l *limit) bucket(k key) flowcontrol.PassiveRateLimiter {
	sum := k.sum()
	l.mu.Lock()
	defer l.mu.Unlock()
	if found, ok := l.buckets.Get(sum); ok {
		return found.(flowcontrol.PassiveRateLimiter)
	}
	made := l.create()
	l.buckets.Add(sum, made)
	return made
}

// key is what a limit counts by.
type key []string

// maxShown bounds what a refusal says of a key, in bytes.
const maxShown = 1024

// String is the key as upstream shows it.
func (k key) String() string {
	s := strings.Join(k, "")
	if len(s) > maxShown {
		return s[:maxShown] + "..."
	}
	return s
}

// sum tells keys apart, also those whose parts are the same when they are joined.
func (k key) sum() [sha256.Size]byte {
	h := sha256.New()
	for _, part := range k {
		_ = binary.Write(h, binary.LittleEndian, uint64(len(part))) // a hash takes everything
		_, _ = h.Write([]byte(part))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

func keyOf(by LimitType, a admission.Attributes) key {
	switch by {
	case Namespace:
		return key{a.GetNamespace()}
	case User:
		if u := a.GetUserInfo(); u != nil {
			return key{u.GetName()}
		}
	case SourceAndObject:
		switch e := a.GetObject().(type) {
		case *corev1.Event:
			return ofEvent(e.Source, e.ReportingController, e.ReportingInstance, e.InvolvedObject)
		case *eventsv1.Event:
			return ofEvent(e.DeprecatedSource, e.ReportingController, e.ReportingInstance, e.Regarding)
		}
	}
	return nil
}

// ofEvent: events of events.k8s.io have no source, but who reports them.
func ofEvent(source corev1.EventSource, controller, instance string, about corev1.ObjectReference) key {
	if source == (corev1.EventSource{}) {
		source.Component, source.Host = controller, instance
	}
	return key{source.Component, source.Host, about.Kind, about.Namespace, about.Name, string(about.UID), about.APIVersion}
}
